// The C# client for test_remote_clients.py: runs commands, one on each line of a file, or plays with a gateway.
// Arguments: path of the commands; or port, token and number of matches.

using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;
using Ludus;

static class Replay
{
    static Session session;
    static SeatClock clock;

    static byte[] FromHex(string text)
    {
        var indices = Enumerable.Range(0, text.Length / 2);
        return indices.Select(i => byte.Parse(text.Substring(2 * i, 2), NumberStyles.HexNumber)).ToArray();
    }

    static string ToHex(byte[] bytes) { return BitConverter.ToString(bytes).Replace("-", "").ToLower(); }

    static Map Without(Map message, params string[] keys)
    {
        var kept = new Map(message);
        foreach (string key in keys) kept.Remove(key);
        return kept;
    }

    static void PrintEvent(Map message)
    {
        Console.WriteLine("event " + message.Text("type") + " " + message.Int("match"));
    }

    static void Run(string[] words)
    {
        switch (words[0])
        {
            case "decode":
                Console.WriteLine("value " + ToHex(Codec.Encode(Codec.Decode(FromHex(words[1])))));
                break;
            case "hello":
                var hello = (Map)Codec.Decode(FromHex(words[1]));
                session = session ?? new Session(Without(hello, "type", "protocol", "client", "resume", "ack"));
                session.Connect();
                break;
            case "gateway":
                var received = session.Receive(FromHex(words[1]));
                if (received != null) PrintEvent(received);
                break;
            case "game":
                var message = (Map)Codec.Decode(FromHex(words[1]));
                string type = message.Text("type");
                long match = message.Int("match");
                if (!session.Send(type, match, Without(message, "type", "match", "seq", "ack")))
                    Console.WriteLine("unsent " + type + " " + match);
                break;
            case "reset":
                session.Reset().ForEach(PrintEvent);
                break;
            case "clock":
                var timing = new Map { { "delay", long.Parse(words[1]) }, { "max_age", long.Parse(words[2]) } };
                clock = new SeatClock(new Map(timing) { { "missing", words[3] } }, new object[] { 0L });
                break;
            case "ask":
                Console.WriteLine(string.Join(" ", new object[] { "dropped" }.Concat(clock.Ask(long.Parse(words[1])))));
                break;
            case "receive":
                clock.Receive(long.Parse(words[1]), new object[] { long.Parse(words[2]) });
                break;
            case "action":
                Console.WriteLine("action " + clock.Action(long.Parse(words[1]))[0]);
                break;
        }
    }

    /// <summary>A game in which the higher number earns the difference, and both see the last numbers.</summary>
    class Numbers
    {
        public long Tick;
        public readonly long[] Last = new long[2];

        public Map Fields()
        {
            var seats = Enumerable.Range(0, 2).Select(seat => new Map {
                { "seat", seat }, { "acts", Tick < 6 }, { "reward", Tick > 0 ? Last[seat] - Last[1 - seat] : 0 },
                { "leaves", new Map { { "numbers", Codec.Bytes(new float[] { Tick, Last[seat], Last[1 - seat] }) } } } });
            return new Map { { "tick", Tick }, { "seats", seats.ToList() } };
        }

        public Map Result()
        {
            var result = new Map { { "ending", "terminated" }, { "outcome", new[] { 1, 0 } } };
            return Fields().Add(result).Add(new Map {
                { "statistics", Last.Select(number => new Map { { "last", number } }).ToList() } });
        }
    }

    static Map Schema()
    {
        var leaf = new Map { { "dtype", "float32" }, { "shape", new[] { 3 } }, { "low", 0 }, { "high", 6 } };
        var role = new Map { { "name", "player" }, { "teams", new[] { 0, 1 } }, { "labels", new[] { 4 } },
                             { "leaves", new Map { { "numbers", leaf } } }, { "statistics", new[] { "last" } } };
        return new Map { { "roles", new[] { role } }, { "turn", "simultaneous" }, { "constant_sum", true } };
    }

    static void Play(int port, string token, int matches)
    {
        var games = new Dictionary<long, Numbers>();
        var hello = new Map { { "game", "numbers" }, { "token", token }, { "matches", matches } };
        hello.Add("schema", Schema());
        using (var client = new Client("127.0.0.1", port, hello, 1))
            while (true)
            {
                var message = client.Poll(1.0) ?? new Map();
                long match = message.Int("match");
                if (message.Text("type") == "match_start")
                {
                    games[match] = new Numbers();
                    games[match].Last[0] = message.Int("seed") % 4;
                }
                else if (message.Text("type") == "action")
                {
                    foreach (var entry in message.Items("actions").Cast<Map>())
                        games[match].Last[entry.Int("seat")] = (long)entry.Items("action")[0];
                    games[match].Tick++;
                }
                else continue;
                if (games[match].Tick < 6) client.Send("observation", match, games[match].Fields());
                else client.Send("match_end", match, games[match].Result());
            }
    }

    static int Main(string[] arguments)
    {
        if (arguments.Length == 3)
            try { Play(int.Parse(arguments[0]), arguments[1], int.Parse(arguments[2])); }
            catch (ProtocolException error) { return error.Code == "bye" ? 0 : 1; }
        foreach (string line in File.ReadLines(arguments[0]))
        {
            try { Run(line.Split(' ')); }
            catch (ProtocolException error) { Console.WriteLine("error " + error.Code); }
            if (session == null) continue;
            foreach (var payload in session.Output) Console.WriteLine("sent " + ToHex(payload));
            session.Output.Clear();
        }
        return 0;
    }
}
