// ludus client for C++17: connects a game to the game gateway of ludus (game protocol, version 1).
//
// One header without dependencies; TCP by POSIX sockets. `encode` and `decode` are the MessagePack subset, `Session` is
// the protocol without sockets, `SeatClock` decides which action is in effect in real-time mode, and `Client` connects
// and reconnects. Use a client in one thread. A lock-step game:
//
//     #include "ludus_client.hpp"
//     using ludus::Map, ludus::List;
//
//     Map place{{"dtype", "float32"}, {"shape", List{2}}};
//     Map role{{"name", "runner"}, {"teams", List{0, 1}}, {"leaves", Map{{"place", place}}}, {"labels", List{3}}};
//     Map schema{{"roles", List{role}}, {"turn", "simultaneous"}, {"max_ticks", 600}};
//     ludus::Client client("127.0.0.1", 7700, {{"game", "race"}, {"token", token}, {"schema", schema}});
//     for (std::map<std::int64_t, Race> races;;) {                        // until poll throws "bye"
//         const auto message = client.poll(1.0).value_or(Map{});
//         const auto type = message.text("type");
//         const auto match = message.integer("match");
//         if (type == "match_start") races[match] = Race(message.integer("seed"));
//         else if (type == "action") races[match].step(message["actions"].list());
//         else continue;
//         auto& race = races[match];
//         if (race.is_over()) client.send("match_end", match, race.result());        // tick, ending, outcome
//         else client.send("observation", match, {{"tick", race.tick()}, {"seats", race.seats()}});
//     }
//
// A seat is Map{{"seat", 0}, {"acts", true}, {"reward", 0.5}, {"leaves", Map{{"place", ludus::bytes(floats)}}}}, with a
// std::vector<float>. A real-time game calls `poll()`, which does not wait, and keeps a SeatClock for each seat. On a
// big-endian machine, swap the bytes of arrays.
#pragma once

#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace ludus {

struct Value;
using Bytes = std::vector<std::uint8_t>;
using List = std::vector<Value>;
using Map = std::vector<std::pair<std::string, Value>>;  // in the order of the keys

/// An error of the protocol; the code is one of those of the message `error`, "bye", or "lost": no connection.
struct ProtocolError : std::runtime_error {
    ProtocolError(std::string code_, const std::string& text)
        : std::runtime_error(code_ + ": " + text), code(std::move(code_)) {}
    std::string code;
};

/// A value of a message. The accessors throw std::bad_variant_access for a value of another type.
struct Value {
    std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, Bytes, List, Map> data;

    Value() = default;
    template <class T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
    Value(T number) : data(static_cast<std::int64_t>(number)) {}
    Value(bool value) : data(value) {}
    Value(double number) : data(number) {}
    Value(const char* text) : data(std::string(text)) {}
    Value(std::string text) : data(std::move(text)) {}
    Value(Bytes bytes) : data(std::move(bytes)) {}
    Value(List list) : data(std::move(list)) {}
    Value(Map map) : data(std::move(map)) {}

    std::int64_t integer() const { return std::get<std::int64_t>(data); }
    double number() const { return std::holds_alternative<double>(data) ? std::get<double>(data) : double(integer()); }
    const std::string& text() const { return std::get<std::string>(data); }
    const List& list() const { return std::get<List>(data); }
    const Map& map() const { return std::get<Map>(data); }

    /// Return the value of a key of a map, or nil.
    const Value& operator[](const std::string& key) const {
        static const Value nil;
        for (const auto& [name, value] : map())
            if (name == key) return value;
        return nil;
    }

    std::int64_t integer(const std::string& key) const { return or_default<std::int64_t>(key); }
    std::string text(const std::string& key) const { return or_default<std::string>(key); }

    /// Return the value of a key of a map; without it, the default of the type.
    template <class T>
    T or_default(const std::string& key) const {
        const auto* found = std::get_if<T>(&(*this)[key].data);
        return found ? *found : T();
    }
};

/// Return the bytes of the numbers of an array.
template <class T>
Bytes bytes(const std::vector<T>& array) {
    Bytes result(array.size() * sizeof(T));
    if (!array.empty()) std::memcpy(result.data(), array.data(), result.size());
    return result;
}

inline void put_number(Bytes& out, std::uint64_t number, int size) {
    while (size--) out.push_back(std::uint8_t(number >> 8 * size));
}

inline void put_length(Bytes& out, std::size_t size, int fixed, std::size_t limit, int format) {
    out.push_back(std::uint8_t(size < limit ? fixed | int(size) : format));
    if (size >= limit) put_number(out, size, 4);
}

template <class Block>
void put_block(Bytes& out, const Block& block, int fixed, std::size_t limit, int format) {
    put_length(out, block.size(), fixed, limit, format);
    out.insert(out.end(), block.begin(), block.end());
}

inline void put(Bytes& out, const Value& value) {
    if (const auto* whole = std::get_if<std::int64_t>(&value.data)) {
        const int size = *whole >= -32 && *whole < 128 ? 1 : *whole == std::int32_t(*whole) ? 4 : 8;
        if (size > 1) out.push_back(size == 4 ? 0xd2 : 0xd3);
        put_number(out, std::uint64_t(*whole), size);
    } else if (const auto* real = std::get_if<double>(&value.data)) {
        if (!std::isfinite(*real)) throw ProtocolError("value", "cannot send a number that is not finite");
        std::uint64_t bits;
        std::memcpy(&bits, real, 8);
        out.push_back(0xcb);
        put_number(out, bits, 8);
    } else if (const auto* text = std::get_if<std::string>(&value.data)) {
        put_block(out, *text, 0xa0, 32, 0xdb);
    } else if (const auto* raw = std::get_if<Bytes>(&value.data)) {
        put_block(out, *raw, 0, 0, 0xc6);
    } else if (const auto* list = std::get_if<List>(&value.data)) {
        put_length(out, list->size(), 0x90, 16, 0xdd);
        for (const auto& item : *list) put(out, item);
    } else if (const auto* map = std::get_if<Map>(&value.data)) {
        put_length(out, map->size(), 0x80, 16, 0xdf);
        for (const auto& [key, item] : *map) put(out, key), put(out, item);
    } else {
        out.push_back(std::holds_alternative<bool>(value.data) ? 0xc2 + std::get<bool>(value.data) : 0xc0);
    }
}

/// Return the MessagePack bytes of a value.
inline Bytes encode(const Value& value) {
    Bytes out;
    put(out, value);
    return out;
}

/// Reads a value from MessagePack bytes; see decode.
struct Reader {
    Reader(const std::uint8_t* data, std::size_t size) : position_(data), end_(data + size) {}
    bool is_at_end() const { return position_ == end_; }

    Value read(int levels = 16) {
        const auto format = std::uint8_t(unsigned_number(1));
        if (format < 0x80) return format;
        if (format < 0x90) return map(format & 15, levels);
        if (format < 0xa0) return list(format & 15, levels);
        if (format < 0xc0) return text(format & 31);
        if (format >= 0xe0) return format - 256;
        switch (format) {
            case 0xc0: return {};
            case 0xc2: case 0xc3: return format == 0xc3;
            case 0xc4: case 0xc5: case 0xc6: return raw<Bytes>(unsigned_number(1 << (format - 0xc4)));
            case 0xca: return real<float, std::uint32_t>();
            case 0xcb: return real<double, std::uint64_t>();
            case 0xcc: case 0xcd: case 0xce: case 0xcf:
                return whole(unsigned_number(1 << (format - 0xcc)), 0);
            case 0xd0: return std::int8_t(unsigned_number(1));
            case 0xd1: return std::int16_t(unsigned_number(2));
            case 0xd2: return std::int32_t(unsigned_number(4));
            case 0xd3: return whole(unsigned_number(8), -largest);
            case 0xd9: case 0xda: case 0xdb: return text(unsigned_number(1 << (format - 0xd9)));
            case 0xdc: case 0xdd: return list(unsigned_number(2 << (format - 0xdc)), levels);
            case 0xde: case 0xdf: return map(unsigned_number(2 << (format - 0xde)), levels);
            default: throw ProtocolError("frame", "a format is not allowed");
        }
    }

   private:
    static constexpr std::int64_t largest = std::int64_t(1) << 53;
    const std::uint8_t *position_, *end_;

    static void check(bool is_valid, const char* text, const char* code = "frame") {
        if (!is_valid) throw ProtocolError(code, text);
    }
    const std::uint8_t* take(std::uint64_t size) {
        check(size <= std::uint64_t(end_ - position_), "the payload is incomplete");
        position_ += size;
        return position_ - size;
    }
    std::uint64_t unsigned_number(int size) {
        std::uint64_t number = 0;
        for (const auto* byte = take(size); size--; ++byte) number = number << 8 | *byte;
        return number;
    }
    Value whole(std::uint64_t bits, std::int64_t lowest) {
        const auto number = std::int64_t(bits);
        check(number <= largest && number >= lowest, "a number is larger than 2^53", "value");
        return number;
    }
    template <class Real, class Bits>
    Value real() {
        const auto bits = Bits(unsigned_number(sizeof(Bits)));
        Real number;
        std::memcpy(&number, &bits, sizeof number);
        check(std::isfinite(number), "a number is not finite", "value");
        return double(number);
    }
    template <class T>
    T raw(std::uint64_t size) {
        const auto* start = take(size);
        return T(start, start + size);
    }
    std::string text(std::uint64_t size) {
        auto text = raw<std::string>(size);
        for (std::size_t i = 0; i < text.size();) {
            const auto first = std::uint8_t(text[i]);
            const std::size_t more = first < 0x80 ? 0 : first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
            check(first < 0x80 || (first >= 0xc2 && first < 0xf5 && i + more < text.size()), "a text is no UTF-8");
            for (std::size_t k = 1; k <= more; ++k) check((text[i + k] & 0xc0) == 0x80, "a text is no UTF-8");
            i += 1 + more;
        }
        return text;
    }
    List list(std::uint64_t size, int levels) {
        check(levels > 0, "the payload has more than 16 levels");
        List items;
        while (items.size() < size) items.push_back(read(levels - 1));
        return items;
    }
    Map map(std::uint64_t size, int levels) {
        Map items;
        for (auto rest = list(2 * size, levels); items.size() < size;) {
            auto& key = rest[2 * items.size()];
            check(std::holds_alternative<std::string>(key.data), "a map has a key that is no text");
            items.emplace_back(key.text(), std::move((&key)[1]));
        }
        return items;
    }
};

/// Return the value of MessagePack bytes.
inline Value decode(const Bytes& payload) {
    Reader reader(payload.data(), payload.size());
    auto value = reader.read();
    if (!reader.is_at_end()) throw ProtocolError("frame", "there are bytes behind the payload");
    return value;
}

inline double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The protocol of a game session, without sockets. `output` collects payloads to send; a transport empties it.
struct Session {
    std::vector<Bytes> output;
    Value welcome = Map{};
    std::set<std::int64_t> running;  // numbers of matches

    /// The hello has at least the keys `game`, `token` and `schema`.
    explicit Session(const Map& hello) : hello_(hello) {
        hello_.insert(hello_.end(), {{"type", "hello"}, {"protocol", List{1, 1}}, {"client", "ludus_client.hpp/1"}});
    }

    bool is_resumable() const { return !resume_.empty(); }

    /// Forget the session; return a `match_void` for every match that was running.
    List reset() {
        List lost;
        for (auto match : running)
            lost.push_back(Map{{"type", "match_void"}, {"match", match}, {"reason", "the session was lost"}});
        received_ = sent_ = 0, resume_.clear(), waiting_.clear(), running.clear();
        return lost;
    }

    /// Begin a connection.
    void connect() {
        auto hello = hello_;
        hello.insert(hello.end(), {{"resume", resume_}, {"ack", received_}});
        output = {encode(hello)};
        is_open_ = false;
    }

    /// Send a numbered message about a match; return false, and send nothing, if the match is not running.
    bool send(const std::string& type, std::int64_t match, const Map& fields) {
        if (!running.count(match)) return false;
        if (std::int64_t(waiting_.size()) >= welcome["limits"].integer("unacknowledged"))
            throw ProtocolError("sequence", "too many messages wait for an acknowledgement");
        Map message{{"type", type}, {"match", match}, {"seq", sent_ + 1}, {"ack", received_}};
        message.insert(message.end(), fields.begin(), fields.end());
        waiting_.emplace_back(sent_ + 1, encode(message));
        ++sent_;
        if (is_open_) output.push_back(waiting_.back().second);
        if (type == "match_end" || type == "match_void") running.erase(match);
        return true;
    }

    /// Process a payload; return its message if it concerns the game.
    std::optional<Value> receive(const Bytes& payload) {
        auto message = decode(payload);
        const auto type = message.text("type");
        const auto match = message.integer("match"), seq = message.integer("seq");
        if (type == "error") throw ProtocolError(message.text("code"), message.text("text"));
        if (type == "bye") throw ProtocolError("bye", message.text("reason"));
        if (!is_open_ && type != "welcome") throw ProtocolError("order", "expected welcome, got " + type);
        while (!waiting_.empty() && waiting_.front().first <= message.integer("ack")) waiting_.pop_front();
        if (type == "match_start" || type == "action" || type == "match_void") {
            if (seq <= received_) return {};  // a duplicate
            if (seq > received_ + 1) throw ProtocolError("sequence", "a message is missing");
            received_ = seq;
        }
        if (type == "welcome") {
            welcome = message, resume_ = message.text("resume"), is_open_ = true;
            for (const auto& [number, sent] : waiting_) output.push_back(sent);
        } else if (type == "ping") {
            const Map pong{{"type", "pong"}, {"ack", received_}, {"time", message["time"]}, {"clock", seconds()}};
            output.push_back(encode(pong));
            return {};
        }
        if (type == "match_start") running.insert(match);
        if (type == "action" && !running.count(match)) return {};
        if (type == "match_void" && !running.erase(match)) return {};
        return message;
    }

   private:
    Map hello_;
    std::string resume_;
    std::int64_t received_ = 0, sent_ = 0;
    std::deque<std::pair<std::int64_t, Bytes>> waiting_;  // numbered payloads without acknowledgement
    bool is_open_ = false;
};

/// The actions of a seat in real-time mode: which one is in effect on a tick, and which ones were dropped.
struct SeatClock {
    /// The timing is the seat's entry of `welcome["timing"]`.
    SeatClock(const Value& timing, const List& no_op) : timing_(timing), no_op_(no_op), current_(no_op) {}

    /// Note that an observation was sent; return its key `dropped`.
    List ask(std::int64_t tick) {
        asked_[tick] = std::nullopt;
        return std::exchange(dropped_, {});
    }

    /// Keep the action for the observation of a tick.
    void receive(std::int64_t tick, const List& action) {
        if (const auto found = asked_.find(tick); found != asked_.end()) found->second = action;
    }

    /// Return the action in effect on a tick. Call it once for every tick, in order.
    const List& action(std::int64_t tick) {
        const auto due = tick - timing_.integer("delay"), oldest = tick - timing_.integer("max_age");
        std::int64_t newest = -1;
        for (const auto& [asked, action] : asked_)
            if (action && asked <= due) newest = asked, current_ = *action;
        bool is_missing = false;
        for (auto entry = asked_.begin(); entry != asked_.end();) {
            const bool is_waiting = entry->first > newest && entry->first >= oldest;
            is_missing |= is_waiting && !entry->second && entry->first <= due;
            if (!is_waiting && entry->first != newest) dropped_.push_back(entry->first);
            entry = is_waiting ? std::next(entry) : asked_.erase(entry);
        }
        if (is_missing && timing_.text("missing") == "no-op") current_ = no_op_;
        return current_;
    }

   private:
    Value timing_;
    List no_op_, current_, dropped_;
    std::map<std::int64_t, std::optional<List>> asked_;  // by tick; actions that may still take effect
};

/// Connects a game to the gateway; see the example at the top. Methods throw ProtocolError.
class Client {
   public:
    Session session;

    /// Arguments: host and first port of the gateway; keys of the hello; number of ports to try, 1 for a game that
    /// ludus starts; seconds without a gateway after which the client fails.
    Client(std::string host, int port, const Map& hello, int ports = 32, double retry_s = 60)
        : session(hello), host_(std::move(host)), port_(port), ports_(ports), retry_s_(retry_s) {}
    Client(const Client&) = delete;
    ~Client() { disconnect(); }

    /// Return the next message of a match or `welcome`, which is waited for at most so long.
    std::optional<Value> poll(double timeout_s = 0) {
        for (const double until = seconds() + timeout_s; events_.empty();) try {
                if (socket_ < 0 && seconds() >= next_try_s_) connect();
                flush();
                if (!receive(until)) return {};
            } catch (const ProtocolError& error) {
                recover(error);
            }
        auto event = std::move(events_.front());
        events_.pop_front();
        return event;
    }

    /// Send a message of a match, such as `observation`; return whether the match is running.
    bool send(const std::string& type, std::int64_t match, const Map& fields) {
        const bool is_sent = session.send(type, match, fields);
        flush();
        return is_sent;
    }

    /// End the session.
    void close(const std::string& reason = "the game ended") {
        session.output.push_back(encode(Map{{"type", "bye"}, {"reason", reason}}));
        flush();
        disconnect();
    }

   private:
    std::string host_;
    int port_, ports_, socket_ = -1, offset_ = 0;
    double retry_s_, contact_s_ = seconds(), next_try_s_ = 0;
    Bytes buffer_;
    std::deque<Value> events_;

    void disconnect() {
        if (socket_ >= 0) ::close(std::exchange(socket_, -1));
    }

    void connect() {
        addrinfo hints{}, *found = nullptr;
        hints.ai_socktype = SOCK_STREAM;
        const auto port = std::to_string(port_ + offset_);
        getaddrinfo(host_.c_str(), port.c_str(), &hints, &found);
        for (auto* each = found; each && socket_ < 0; each = each->ai_next) {
            socket_ = socket(each->ai_family, each->ai_socktype, each->ai_protocol);
            if (socket_ >= 0 && ::connect(socket_, each->ai_addr, each->ai_addrlen)) disconnect();
        }
        if (found) freeaddrinfo(found);
        if (socket_ < 0) throw ProtocolError("lost", "no gateway at " + host_ + ":" + port);
        const int on = 1;
        setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        buffer_.clear();
        session.connect();
    }

    void flush() {
        if (socket_ < 0) return;
        Bytes out;
        for (const auto& payload : std::exchange(session.output, {})) {
            put_number(out, payload.size(), 4);
            out.insert(out.end(), payload.begin(), payload.end());
        }
        for (std::size_t start = 0; start < out.size();) {
            const auto sent = ::send(socket_, out.data() + start, out.size() - start, MSG_NOSIGNAL);
            if (sent <= 0) return recover(ProtocolError("lost", "the connection ended"));
            start += std::size_t(sent);
        }
    }

    /// Read what has arrived until a time; return whether the time has not come.
    bool receive(double until) {
        const double wait_s = std::max(0.0, (socket_ < 0 ? std::min(until, next_try_s_) : until) - seconds());
        pollfd waited{socket_, POLLIN, 0};
        if (::poll(&waited, 1, int(std::ceil(1000 * wait_s))) <= 0) return seconds() < until;
        std::uint8_t data[65536];
        const auto size = recv(socket_, data, sizeof data, 0);
        if (size <= 0) throw ProtocolError("lost", "the connection ended");
        buffer_.insert(buffer_.end(), data, data + size);
        contact_s_ = seconds();
        for (std::ptrdiff_t length; buffer_.size() >= 4;) {
            length = std::ptrdiff_t(buffer_[0]) << 24 | buffer_[1] << 16 | buffer_[2] << 8 | buffer_[3];
            if (std::ptrdiff_t(buffer_.size()) < 4 + length) break;
            auto message = session.receive(Bytes(buffer_.begin() + 4, buffer_.begin() + 4 + length));
            if (message) events_.push_back(std::move(*message));
            buffer_.erase(buffer_.begin(), buffer_.begin() + 4 + length);
        }
        return true;
    }

    void recover(const ProtocolError& error) {
        disconnect();
        const bool was_resumable = session.is_resumable(), is_lost = error.code == "lost";
        const double silent_s = seconds() - contact_s_;
        if ((!is_lost && error.code != "full" && error.code != "resume") || silent_s > retry_s_) throw error;
        if (!is_lost || (was_resumable && silent_s > session.welcome["limits"]["resume_s"].number()))
            for (auto& message : session.reset()) events_.push_back(std::move(message));
        if (!was_resumable) offset_ = (offset_ + 1) % ports_;
        next_try_s_ = seconds() + (was_resumable ? 0.1 : offset_ ? 0 : 1);
    }
};

}  // namespace ludus
