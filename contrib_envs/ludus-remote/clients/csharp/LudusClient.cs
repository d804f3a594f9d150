// ludus client for C#: connects a game to the game gateway of ludus (game protocol, version 1).
//
// One file for C# 6 and newer without dependencies and without types of an engine; TCP. Codec is the MessagePack
// subset, Session is the protocol without sockets, SeatClock decides which action is in effect in real-time mode, and
// Client connects and reconnects. Use a client in one thread. Messages are maps; numbers in them are long or double,
// arrays are byte[]. A lock-step game:
//
//     using Ludus;
//
//     var place = new Map { { "dtype", "float32" }, { "shape", new[] { 2 } } };
//     var role = new Map { { "name", "runner" }, { "teams", new[] { 0, 1 } }, { "labels", new[] { 3 } },
//                          { "leaves", new Map { { "place", place } } } };
//     var schema = new Map { { "roles", new[] { role } }, { "turn", "simultaneous" }, { "max_ticks", 600 } };
//     var hello = new Map { { "game", "race" }, { "token", token }, { "schema", schema } };
//     var races = new Dictionary<long, Race>();
//     using (var client = new Client("127.0.0.1", 7700, hello))
//         while (true) {                                                   // until Poll throws "bye"
//             var message = client.Poll(1.0) ?? new Map();
//             long match = message.Int("match");
//             if (message.Text("type") == "match_start") races[match] = new Race(message.Int("seed"));
//             else if (message.Text("type") == "action") races[match].Step(message.Items("actions"));
//             else continue;
//             var race = races[match];
//             if (race.IsOver) client.Send("match_end", match, race.Result());         // tick, ending, outcome
//             else client.Send("observation", match, new Map { { "tick", race.Tick }, { "seats", race.Seats() } });
//         }
//
// A seat is new Map { { "seat", 0 }, { "acts", true }, { "reward", 0.5 }, { "leaves", leaves } }, with leaves =
// new Map { { "place", Codec.Bytes(floats) } } and a float[]. A real-time game calls Poll(), which does not wait, in
// its update and keeps a SeatClock for each seat.

using System;
using System.Collections;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Net.Sockets;
using System.Text;

namespace Ludus
{
    /// <summary>An error of the protocol. The code is one of those of the message "error", "bye", or "lost".</summary>
    public class ProtocolException : Exception
    {
        public readonly string Code;
        public ProtocolException(string code, string text) : base(code + ": " + text) { Code = code; }
    }

    /// <summary>A map of a message, with its keys in order.</summary>
    public class Map : Dictionary<string, object>
    {
        public Map() { }
        public Map(IDictionary<string, object> other) : base(other) { }
        public object Get(string key) { return TryGetValue(key, out object value) ? value : null; }
        public long Int(string key) { return Get(key) is long number ? number : 0; }
        public double Float(string key) { return Get(key) is double number ? number : Int(key); }
        public string Text(string key) { return Get(key) as string ?? ""; }
        public IList<object> Items(string key) { return Get(key) as IList<object> ?? new object[0]; }
        public Map Add(Map more) { foreach (var item in more) this[item.Key] = item.Value; return this; }
    }

    /// <summary>The MessagePack subset of the protocol.</summary>
    public static class Codec
    {
        const long Largest = 1L << 53;
        static readonly UTF8Encoding Utf8 = new UTF8Encoding(false, true);

        /// <summary>Return the bytes of the numbers of an array, on a little-endian machine.</summary>
        public static byte[] Bytes(Array numbers)
        {
            var bytes = new byte[Buffer.ByteLength(numbers)];
            Buffer.BlockCopy(numbers, 0, bytes, 0, bytes.Length);
            return bytes;
        }

        public static byte[] Encode(object value)
        {
            var output = new MemoryStream();
            Put(output, value);
            return output.ToArray();
        }

        public static object Decode(byte[] payload)
        {
            int position = 0;
            var value = Read(payload, ref position, 16);
            Check(position == payload.Length, "there are bytes behind the payload");
            return value;
        }

        /// <summary>Write the lowest bytes of a number, the highest one first.</summary>
        public static void PutNumber(Stream output, ulong number, int size)
        {
            while (size-- > 0) output.WriteByte((byte)(number >> 8 * size));
        }

        static void PutLength(Stream output, int size, int fixedFormat, int limit, byte format)
        {
            output.WriteByte(size < limit ? (byte)(fixedFormat | size) : format);
            if (size >= limit) PutNumber(output, (ulong)size, 4);
        }

        static void PutBlock(Stream output, byte[] bytes, int fixedFormat, int limit, byte format)
        {
            PutLength(output, bytes.Length, fixedFormat, limit, format);
            output.Write(bytes, 0, bytes.Length);
        }

        static void Put(Stream output, object value)
        {
            if (value == null) output.WriteByte(0xc0);
            else if (value is bool) output.WriteByte((byte)((bool)value ? 0xc3 : 0xc2));
            else if (value is string) PutBlock(output, Utf8.GetBytes((string)value), 0xa0, 32, 0xdb);
            else if (value is byte[]) PutBlock(output, (byte[])value, 0, 0, 0xc6);
            else if (value is float || value is double) PutReal(output, Convert.ToDouble(value));
            else if (value is Map)
            {
                PutLength(output, ((Map)value).Count, 0x80, 16, 0xdf);
                foreach (var item in (Map)value) { Put(output, item.Key); Put(output, item.Value); }
            }
            else if (value is ICollection)
            {
                PutLength(output, ((ICollection)value).Count, 0x90, 16, 0xdd);
                foreach (var item in (ICollection)value) Put(output, item);
            }
            else PutWhole(output, Convert.ToInt64(value));
        }

        static void PutReal(Stream output, double number)
        {
            if (double.IsNaN(number) || double.IsInfinity(number))
                throw new ProtocolException("value", "cannot send a number that is not finite");
            output.WriteByte(0xcb);
            PutNumber(output, (ulong)BitConverter.DoubleToInt64Bits(number), 8);
        }

        static void PutWhole(Stream output, long number)
        {
            if (number < -32 || number >= 128) output.WriteByte((byte)(number == (int)number ? 0xd2 : 0xd3));
            PutNumber(output, (ulong)number, number >= -32 && number < 128 ? 1 : number == (int)number ? 4 : 8);
        }

        static void Check(bool isValid, string text, string code = "frame")
        {
            if (!isValid) throw new ProtocolException(code, text);
        }

        static int Take(byte[] data, ref int position, long size)
        {
            Check(size <= data.Length - position, "the payload is incomplete");
            position += (int)size;
            return position - (int)size;
        }

        static ulong ReadNumber(byte[] data, ref int position, int size)
        {
            ulong number = 0;
            int start = Take(data, ref position, size);
            for (int index = start; index < position; index++) number = number << 8 | data[index];
            return number;
        }

        static object Read(byte[] data, ref int position, int levels)
        {
            var format = (int)ReadNumber(data, ref position, 1);
            if (format < 0x80) return (long)format;
            if (format < 0x90) return ReadMap(data, ref position, format & 15, levels);
            if (format < 0xa0) return ReadList(data, ref position, format & 15, levels);
            if (format < 0xc0) return ReadText(data, ref position, format & 31);
            if (format >= 0xe0) return (long)format - 256;
            if (format == 0xc0) return null;
            if (format == 0xc2 || format == 0xc3) return format == 0xc3;
            bool isExtension = (format >= 0xc7 && format <= 0xc9) || (format >= 0xd4 && format <= 0xd8);
            Check(format != 0xc1 && !isExtension, "a format is not allowed");
            int size = format < 0xc7 ? 1 << format - 0xc4 : format < 0xcc ? 4 << format - 0xca : format < 0xd4
                ? 1 << (format & 3) : format < 0xdc ? 1 << format - 0xd9 : 2 << (format & 1);
            ulong number = ReadNumber(data, ref position, size);
            if (format < 0xc7) return ReadBytes(data, ref position, (long)number);
            if (format == 0xca) return Finite(BitConverter.ToSingle(BitConverter.GetBytes((uint)number), 0));
            if (format == 0xcb) return Finite(BitConverter.Int64BitsToDouble((long)number));
            if (format < 0xd0) return Whole((long)number, 0);
            if (format < 0xd4) return Whole((long)number << 64 - 8 * size >> 64 - 8 * size, -Largest);
            if (format < 0xdc) return ReadText(data, ref position, (long)number);
            if (format < 0xde) return ReadList(data, ref position, (long)number, levels);
            return ReadMap(data, ref position, (long)number, levels);
        }

        static object Finite(double number)
        {
            Check(!double.IsNaN(number) && !double.IsInfinity(number), "a number is not finite", "value");
            return number;
        }

        static object Whole(long number, long lowest)
        {
            Check(number <= Largest && number >= lowest, "a number is larger than 2^53", "value");
            return number;
        }

        static byte[] ReadBytes(byte[] data, ref int position, long size)
        {
            var bytes = new byte[Math.Min(size, data.Length)];
            Array.Copy(data, Take(data, ref position, size), bytes, 0, bytes.Length);
            return bytes;
        }

        static string ReadText(byte[] data, ref int position, long size)
        {
            try { return Utf8.GetString(data, Take(data, ref position, size), (int)size); }
            catch (ArgumentException) { throw new ProtocolException("frame", "a text is no UTF-8"); }
        }

        static List<object> ReadList(byte[] data, ref int position, long size, int levels)
        {
            Check(levels > 0, "the payload has more than 16 levels");
            var list = new List<object>();
            while (list.Count < size) list.Add(Read(data, ref position, levels - 1));
            return list;
        }

        static Map ReadMap(byte[] data, ref int position, long size, int levels)
        {
            var items = ReadList(data, ref position, 2 * size, levels);
            var map = new Map();
            for (int index = 0; index < items.Count; index += 2)
            {
                Check(items[index] is string, "a map has a key that is no text");
                map[(string)items[index]] = items[index + 1];
            }
            return map;
        }
    }

    /// <summary>The protocol of a game session, without sockets. A transport sends and empties Output.</summary>
    public class Session
    {
        public readonly List<byte[]> Output = new List<byte[]>();
        public readonly SortedSet<long> Running = new SortedSet<long>();  // numbers of matches
        public Map Welcome = new Map();
        readonly Map hello;
        // Numbered payloads without acknowledgement.
        readonly Queue<KeyValuePair<long, byte[]>> waiting = new Queue<KeyValuePair<long, byte[]>>();
        string resume = "";
        long received, sent;
        bool isOpen;

        /// <summary>The hello has at least the keys "game", "token" and "schema".</summary>
        public Session(Map hello)
        {
            this.hello = new Map { { "type", "hello" }, { "protocol", new[] { 1, 1 } } };
            this.hello.Add("client", "LudusClient.cs/1");
            this.hello.Add(hello);
        }

        public bool IsResumable { get { return resume != ""; } }

        /// <summary>Forget the session; return a "match_void" for every match that was running.</summary>
        public List<Map> Reset()
        {
            var lost = Running.Select(match => new Map { { "type", "match_void" }, { "match", match },
                { "reason", "the session was lost" } }).ToList();
            received = sent = 0;
            resume = "";
            waiting.Clear();
            Running.Clear();
            return lost;
        }

        /// <summary>Begin a connection.</summary>
        public void Connect()
        {
            Output.Clear();
            Output.Add(Codec.Encode(new Map(hello) { { "resume", resume }, { "ack", received } }));
            isOpen = false;
        }

        /// <summary>Send a numbered message about a match; return false, unsent, if it does not run.</summary>
        public bool Send(string type, long match, Map fields)
        {
            if (!Running.Contains(match)) return false;
            if (waiting.Count >= ((Map)Welcome.Get("limits")).Int("unacknowledged"))
                throw new ProtocolException("sequence", waiting.Count + " messages wait for an acknowledgement");
            var message = new Map { { "type", type }, { "match", match }, { "seq", sent + 1 }, { "ack", received } };
            var payload = Codec.Encode(message.Add(fields));
            waiting.Enqueue(new KeyValuePair<long, byte[]>(++sent, payload));
            if (isOpen) Output.Add(payload);
            if (type == "match_end" || type == "match_void") Running.Remove(match);
            return true;
        }

        /// <summary>Process a payload; return its message if it concerns the game, else null.</summary>
        public Map Receive(byte[] payload)
        {
            var message = Codec.Decode(payload) as Map ?? new Map();
            string type = message.Text("type");
            long match = message.Int("match"), seq = message.Int("seq");
            if (type == "error") throw new ProtocolException(message.Text("code"), message.Text("text"));
            if (type == "bye") throw new ProtocolException("bye", message.Text("reason"));
            if (!isOpen && type != "welcome") throw new ProtocolException("order", "expected welcome, got " + type);
            while (waiting.Count > 0 && waiting.Peek().Key <= message.Int("ack")) waiting.Dequeue();
            if (type == "match_start" || type == "action" || type == "match_void")
            {
                if (seq <= received) return null;  // a duplicate
                if (seq > received + 1) throw new ProtocolException("sequence", "a message is missing before " + seq);
                received = seq;
            }
            switch (type)
            {
                case "welcome":
                    Welcome = message;
                    resume = message.Text("resume");
                    isOpen = true;
                    Output.AddRange(waiting.Select(each => each.Value));
                    break;
                case "ping":
                    var pong = new Map { { "type", "pong" }, { "ack", received }, { "time", message.Get("time") } };
                    Output.Add(Codec.Encode(new Map(pong) { { "clock", Client.Seconds } }));
                    return null;
                case "match_start": Running.Add(match); break;
                case "match_void": return Running.Remove(match) ? message : null;
                case "action": return Running.Contains(match) ? message : null;
            }
            return message;
        }
    }

    /// <summary>The actions of a seat in real-time mode: which one is in effect, which ones were dropped.</summary>
    public class SeatClock
    {
        readonly long delay, maxAge;
        readonly IList<object> missing;
        // Actions that may still take effect, by tick of their observation; null: not received yet.
        readonly SortedDictionary<long, IList<object>> asked = new SortedDictionary<long, IList<object>>();
        List<object> dropped = new List<object>();
        IList<object> current;

        /// <summary>The timing is the seat's entry of "timing" in the welcome.</summary>
        public SeatClock(Map timing, IList<object> noOp)
        {
            delay = timing.Int("delay");
            maxAge = timing.Int("max_age");
            current = noOp;
            missing = timing.Text("missing") == "no-op" ? noOp : null;
        }

        /// <summary>Note that an observation was sent; return its key "dropped".</summary>
        public IList<object> Ask(long tick)
        {
            var listed = dropped;
            dropped = new List<object>();
            asked[tick] = null;
            return listed;
        }

        /// <summary>Keep the action for the observation of a tick.</summary>
        public void Receive(long tick, IList<object> action)
        {
            if (asked.ContainsKey(tick)) asked[tick] = action;
        }

        /// <summary>Return the action in effect on a tick. Call it once for every tick, in order.</summary>
        public IList<object> Action(long tick)
        {
            var newest = asked.LastOrDefault(each => each.Value != null && each.Key + delay <= tick);
            long executed = newest.Value == null ? -1 : newest.Key;
            if (executed >= 0) current = newest.Value;
            foreach (long gone in asked.Keys.Where(each => each <= executed || tick > each + maxAge).ToList())
            {
                if (gone != executed) dropped.Add(gone);
                asked.Remove(gone);
            }
            bool isMissing = asked.Any(each => each.Value == null && each.Key + delay <= tick);
            return current = isMissing ? missing ?? current : current;
        }
    }

    /// <summary>Connects a game to the gateway; see the example at the top. Methods throw ProtocolException.</summary>
    public class Client : IDisposable
    {
        public readonly Session Session;
        public static double Seconds { get { return Stopwatch.GetTimestamp() / (double)Stopwatch.Frequency; } }
        readonly Queue<Map> events = new Queue<Map>();
        readonly string host;
        readonly int port, ports;
        readonly double retry_s;
        Socket socket;
        byte[] buffer = new byte[1 << 16];
        int filled, offset;
        double contact_s = Seconds, nextTry_s;

        /// <summary>
        /// Arguments: host and first port of the gateway; keys of the hello; number of ports to try, 1 for a game that
        /// ludus starts; seconds without a gateway after which the client fails.
        /// </summary>
        public Client(string host, int port, Map hello, int ports = 32, double retry_s = 60)
        {
            this.host = host;
            this.port = port;
            this.ports = ports;
            this.retry_s = retry_s;
            Session = new Session(hello);
        }

        /// <summary>Return the next message of a match, or "welcome"; null: none in so many seconds.</summary>
        public Map Poll(double timeout_s = 0)
        {
            for (double until = Seconds + timeout_s; events.Count == 0;)
                try
                {
                    if (socket == null && Seconds >= nextTry_s) Connect();
                    Flush();
                    if (!Receive(until)) break;
                }
                catch (ProtocolException error) { Recover(error); }
                catch (SocketException error) { Recover(new ProtocolException("lost", error.Message)); }
            return events.Count > 0 ? events.Dequeue() : null;
        }

        /// <summary>Send a message of a match, such as "observation"; return whether the match is running.</summary>
        public bool Send(string type, long match, Map fields)
        {
            bool isSent = Session.Send(type, match, fields);
            try { Flush(); }
            catch (SocketException error) { Recover(new ProtocolException("lost", error.Message)); }
            return isSent;
        }

        /// <summary>End the session.</summary>
        public void Dispose()
        {
            Session.Output.Add(Codec.Encode(new Map { { "type", "bye" }, { "reason", "the game ended" } }));
            try { Flush(); }
            catch (SocketException) { }  // the session ends without it, too
            Disconnect();
        }

        void Disconnect()
        {
            if (socket != null) socket.Close();
            socket = null;
        }

        void Connect()
        {
            socket = new Socket(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
            socket.Connect(host, port + offset);
            filled = 0;
            Session.Connect();
        }

        void Flush()
        {
            if (socket == null) return;
            var output = new MemoryStream();
            foreach (var payload in Session.Output)
            {
                Codec.PutNumber(output, (ulong)payload.Length, 4);
                output.Write(payload, 0, payload.Length);
            }
            Session.Output.Clear();
            if (output.Length > 0) socket.Send(output.ToArray());
        }

        /// <summary>Read what has arrived until a time; return whether the time has not come.</summary>
        bool Receive(double until)
        {
            double wait_s = Math.Max(0, (socket == null ? Math.Min(until, nextTry_s) : until) - Seconds);
            if (socket == null) System.Threading.Thread.Sleep((int)(1000 * wait_s));
            if (socket == null || !socket.Poll((int)(1e6 * wait_s), SelectMode.SelectRead)) return Seconds < until;
            if (filled == buffer.Length) Array.Resize(ref buffer, 2 * filled);
            int size = socket.Receive(buffer, filled, buffer.Length - filled, SocketFlags.None);
            if (size == 0) throw new ProtocolException("lost", "the connection ended");
            contact_s = Seconds;
            filled += size;
            int start = 0;
            for (int end; filled - start >= 4 && (end = start + 4 + Length(start)) <= filled; start = end)
            {
                var message = Session.Receive(buffer.Skip(start + 4).Take(end - start - 4).ToArray());
                if (message != null) events.Enqueue(message);
            }
            filled -= start;
            Buffer.BlockCopy(buffer, start, buffer, 0, filled);
            return true;
        }

        int Length(int at) { return buffer[at] << 24 | buffer[at + 1] << 16 | buffer[at + 2] << 8 | buffer[at + 3]; }

        void Recover(ProtocolException error)
        {
            Disconnect();
            bool wasResumable = Session.IsResumable, isLost = error.Code == "lost";
            double silent_s = Seconds - contact_s;
            if ((!isLost && error.Code != "full" && error.Code != "resume") || silent_s > retry_s) throw error;
            if (!isLost || (wasResumable && silent_s > ((Map)Session.Welcome.Get("limits")).Float("resume_s")))
                foreach (var message in Session.Reset()) events.Enqueue(message);
            if (!wasResumable) offset = (offset + 1) % ports;
            nextTry_s = Seconds + (wasResumable ? 0.1 : offset > 0 ? 0 : 1);
        }
    }
}
