// Runs the commands of test_remote_clients.py, one on each line of a file, with the C# client.

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

    static void Main(string[] arguments)
    {
        foreach (string line in File.ReadLines(arguments[0]))
        {
            try { Run(line.Split(' ')); }
            catch (ProtocolException error) { Console.WriteLine("error " + error.Code); }
            if (session == null) continue;
            foreach (var payload in session.Output) Console.WriteLine("sent " + ToHex(payload));
            session.Output.Clear();
        }
    }
}
