// Runs the commands of test_remote_clients.py, one on each line of a file, with the C++ client.

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

}  // namespace

int main(int, char** arguments) {
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
