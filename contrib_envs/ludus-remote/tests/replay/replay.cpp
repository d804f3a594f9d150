// The C++ client for test_remote_clients.py: runs commands, one on each line of a file, or plays with a gateway.
// Arguments: path of the commands; or port, token and number of matches.

#include <fstream>
#include <iostream>
#include <sstream>

#include "ludus_client.hpp"

namespace {

ludus::Bytes from_hex(const std::string& text) {
    ludus::Bytes bytes;
    for (std::size_t i = 0; i < text.size(); i += 2)
        bytes.push_back(std::uint8_t(std::stoi(text.substr(i, 2), nullptr, 16)));
    return bytes;
}

std::string to_hex(const ludus::Bytes& bytes) {
    std::string text;
    for (auto byte : bytes) text += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
    return text;
}

ludus::Map without(const ludus::Value& message, const std::set<std::string>& keys) {
    ludus::Map kept;
    for (const auto& item : message.map())
        if (!keys.count(item.first)) kept.push_back(item);
    return kept;
}

struct Replay {
    std::optional<ludus::Session> session;
    std::optional<ludus::SeatClock> clock;

    static void print_event(const ludus::Value& message) {
        std::cout << "event " << message.text("type") << ' ' << message.integer("match") << '\n';
    }

    void run(const std::string& name, std::istream& words) {
        std::string hex, missing;
        std::int64_t first = 0, second = 0;
        if (name == "decode") {
            words >> hex;
            const auto again = to_hex(ludus::encode(ludus::decode(from_hex(hex))));
            std::cout << "value " << again << '\n';
        } else if (name == "hello") {
            words >> hex;
            const auto hello = without(ludus::decode(from_hex(hex)), {"type", "protocol", "client", "resume", "ack"});
            if (!session) session.emplace(hello);
            session->connect();
        } else if (name == "gateway") {
            words >> hex;
            if (const auto message = session->receive(from_hex(hex))) print_event(*message);
        } else if (name == "game") {
            words >> hex;
            const auto message = ludus::decode(from_hex(hex));
            const auto match = message.integer("match");
            if (!session->send(message.text("type"), match, without(message, {"type", "match", "seq", "ack"})))
                std::cout << "unsent " << message.text("type") << ' ' << match << '\n';
        } else if (name == "reset") {
            for (const auto& message : session->reset()) print_event(message);
        } else if (name == "clock") {
            words >> first >> second >> missing;
            const ludus::Map timing{{"delay", first}, {"max_age", second}, {"missing", missing}};
            clock.emplace(timing, ludus::List{0});
        } else if (name == "ask") {
            words >> first;
            std::cout << "dropped";
            for (const auto& tick : clock->ask(first)) std::cout << ' ' << tick.integer();
            std::cout << '\n';
        } else if (name == "receive") {
            words >> first >> second;
            clock->receive(first, {second});
        } else if (name == "action") {
            words >> first;
            std::cout << "action " << clock->action(first)[0].integer() << '\n';
        }
    }
};

// A game in which the higher number earns the difference, and both see the last numbers.
struct Numbers {
    std::int64_t tick = 0, last[2] = {};

    ludus::List seats() const {
        ludus::List seats;
        for (int seat = 0; seat < 2; ++seat) {
            const std::vector<float> numbers{float(tick), float(last[seat]), float(last[1 - seat])};
            const ludus::Map leaves{{"numbers", ludus::bytes(numbers)}};
            const auto reward = tick ? last[seat] - last[1 - seat] : 0;
            seats.push_back(ludus::Map{{"seat", seat}, {"acts", tick < 6}, {"leaves", leaves}, {"reward", reward}});
        }
        return seats;
    }
};

ludus::Map schema() {
    using ludus::List, ludus::Map;
    const Map leaf{{"dtype", "float32"}, {"shape", List{3}}, {"low", 0}, {"high", 6}};
    const Map role{{"name", "player"}, {"teams", List{0, 1}}, {"leaves", Map{{"numbers", leaf}}}, {"labels", List{4}},
                   {"statistics", List{"last"}}};
    return {{"roles", List{role}}, {"turn", "simultaneous"}, {"constant_sum", true}};
}

void play(int port, const std::string& token, int matches) {
    using ludus::List, ludus::Map;
    const Map hello{{"game", "numbers"}, {"token", token}, {"matches", matches}, {"schema", schema()}};
    ludus::Client client("127.0.0.1", port, hello, 1);
    for (std::map<std::int64_t, Numbers> games;;) {
        const auto message = client.poll(1.0).value_or(Map{});
        const auto type = message.text("type");
        const auto match = message.integer("match");
        auto& game = games[match];
        if (type == "match_start") {
            game = {0, {message.integer("seed") % 4, 0}};
        } else if (type == "action") {
            ++game.tick;
            for (const auto& entry : message["actions"].list())
                game.last[entry.integer("seat")] = entry["action"].list()[0].integer();
        } else {
            continue;
        }
        const Map fields{{"tick", game.tick}, {"seats", game.seats()}};
        if (game.tick < 6) {
            client.send("observation", match, fields);
            continue;
        }
        const List statistics{Map{{"last", game.last[0]}}, Map{{"last", game.last[1]}}};
        client.send("match_end", match, {{"tick", game.tick}, {"seats", game.seats()}, {"ending", "terminated"},
                                         {"outcome", List{1, 0}}, {"statistics", statistics}});
    }
}

}  // namespace

int main(int count, char** arguments) {
    if (count > 2) try {
            play(std::stoi(arguments[1]), arguments[2], std::stoi(arguments[3]));
        } catch (const ludus::ProtocolError& error) {
            return error.code == "bye" ? 0 : (std::cerr << error.what() << '\n', 1);
        }
    Replay replay;
    std::ifstream commands(arguments[1]);
    for (std::string line, name; std::getline(commands, line);) {
        std::istringstream words(line);
        words >> name;
        try {
            replay.run(name, words);
        } catch (const ludus::ProtocolError& error) {
            std::cout << "error " << error.code << '\n';
        }
        if (!replay.session) continue;
        for (const auto& payload : replay.session->output) std::cout << "sent " << to_hex(payload) << '\n';
        replay.session->output.clear();
    }
}
