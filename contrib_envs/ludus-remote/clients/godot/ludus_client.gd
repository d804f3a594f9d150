## ludus client for Godot 4: connects a game to the game gateway of ludus (game protocol, version 1).
##
## One file without dependencies; TCP. [LudusClient.Codec] is the MessagePack subset,
## [LudusClient.Session] is the protocol without sockets, [LudusClient.SeatClock] decides which
## action is in effect in real-time mode, and [LudusClient] connects and reconnects. Messages are
## dictionaries, arrays of numbers are [PackedByteArray]. A lock-step game:
## [codeblock]
## extends Node
##
## const PLACE := {"dtype": "float32", "shape": [2]}
## const ROLE := {"name": "runner", "teams": [0, 1], "leaves": {"place": PLACE}, "labels": [3]}
## const SCHEMA := {"roles": [ROLE], "turn": "simultaneous", "max_ticks": 600}
## var hello := {"game": "race", "token": OS.get_environment("TOKEN"), "schema": SCHEMA}
## var client := LudusClient.new("127.0.0.1", 7700, hello)
## var races := {}
##
## func _process(_delta: float) -> void:
##     for message in client.poll():
##         match message.type:
##             "match_start": races[message.match] = Race.new(message.seed)
##             "action": races[message.match].step(message.actions)
##             "error", "bye": get_tree().quit()
##         if message.type in ["match_start", "action"]:
##             var race = races[message.match]
##             if race.is_over(): client.send("match_end", message.match, race.result())
##             else: client.send("observation", message.match, race.observation())  # tick, seats
## [/codeblock]
## A seat is [code]{"seat": 0, "acts": true, "reward": 0.5, "leaves": {"place": bytes}}[/code], with
## [code]bytes = PackedFloat32Array([x, y]).to_byte_array()[/code]. A real-time game sends an
## observation every [code]period[/code] ticks and keeps a SeatClock for each seat.
class_name LudusClient
extends RefCounted

const NUMBERED := ["match_start", "action", "match_void"]
const RETRIED := ["lost", "full", "resume"]

var session: Session
var _host: String
var _port: int
var _ports: int
var _retry_s: float
var _socket: StreamPeerTCP = null
var _buffer := PackedByteArray()
var _offset := 0
var _contact_s := _seconds()
var _next_try_s := 0.0


## The hello has at least the keys game, token and schema. ports: number of ports to try, 1 for a
## game that ludus starts; retry_s: seconds without a gateway after which the client fails.
func _init(host: String, port: int, hello: Dictionary, ports := 32, retry_s := 60.0) -> void:
	session = Session.new(hello)
	_host = host
	_port = port
	_ports = ports
	_retry_s = retry_s


## Return the messages of matches that have arrived, and welcome, without waiting. The last one is
## "error" or "bye" where the session has ended.
func poll() -> Array:
	var events := []
	if _socket == null and _seconds() >= _next_try_s:
		_connect()
	if _socket == null:
		return events
	_socket.poll()
	var status := _socket.get_status()
	if status == StreamPeerTCP.STATUS_CONNECTING:
		return events
	if status == StreamPeerTCP.STATUS_CONNECTED and not session.is_begun:
		_socket.set_no_delay(true)
		session.connect_again()
	if status == StreamPeerTCP.STATUS_CONNECTED:
		_read(events)
	elif session.error.is_empty():
		session.error = {"type": "error", "code": "lost", "text": "no connection to the gateway"}
	if not session.error.is_empty():
		_recover(events)
	_flush()
	return events


## Send a message of a match, such as observation; return whether the match is running.
func send(type: String, number: int, fields: Dictionary) -> bool:
	var is_sent := session.send(type, number, fields)
	_flush()
	return is_sent


## End the session.
func close(reason := "the game ended") -> void:
	session.output.append(Codec.encode({"type": "bye", "reason": reason}))
	_flush()
	_disconnect()
	_next_try_s = INF


static func _seconds() -> float:
	return Time.get_ticks_msec() / 1000.0


func _connect() -> void:
	_buffer = PackedByteArray()
	session.is_begun = false
	_socket = StreamPeerTCP.new()
	if _socket.connect_to_host(_host, _port + _offset) != OK:
		session.error = {"type": "error", "code": "lost", "text": "no gateway at %s" % _host}


func _disconnect() -> void:
	if _socket != null:
		_socket.disconnect_from_host()
	_socket = null


func _read(events: Array) -> void:
	var available := _socket.get_available_bytes()
	if available > 0:
		_buffer.append_array(_socket.get_partial_data(available)[1])
		_contact_s = _seconds()
	var start := 0
	while _buffer.size() - start >= 4 and session.error.is_empty():
		var length := 0
		for index in 4:
			length = (length << 8) | _buffer[start + index]
		if _buffer.size() - start - 4 < length:
			break
		var message := session.receive(_buffer.slice(start + 4, start + 4 + length))
		if not message.is_empty():
			events.append(message)
		start += 4 + length
	_buffer = _buffer.slice(start)


func _flush() -> void:
	if _socket == null or _socket.get_status() != StreamPeerTCP.STATUS_CONNECTED:
		return
	for payload in session.output:
		var frame := StreamPeerBuffer.new()
		frame.big_endian = true
		frame.put_u32(payload.size())
		frame.put_data(payload)
		_socket.put_data(frame.data_array)
	session.output.clear()


func _recover(events: Array) -> void:
	var error := session.error
	var was_resumable := not session.resume.is_empty()
	var silent_s := _seconds() - _contact_s
	session.error = {}
	_disconnect()
	if not error.code in RETRIED or silent_s > _retry_s:
		events.append(error)
		_next_try_s = INF
		return
	if error.code != "lost" or (was_resumable and silent_s > session.welcome.limits.resume_s):
		for message in session.reset():
			events.append(message)
	if not was_resumable:
		_offset = (_offset + 1) % _ports
	_next_try_s = _seconds() + (0.1 if was_resumable else 0.0 if _offset > 0 else 1.0)


## The MessagePack subset of the protocol.
class Codec:
	static func encode(value: Variant) -> PackedByteArray:
		var out := StreamPeerBuffer.new()
		out.big_endian = true
		put(out, value)
		return out.data_array

	static func put(out: StreamPeerBuffer, value: Variant) -> void:
		match typeof(value):
			TYPE_BOOL:
				out.put_u8(0xc3 if value else 0xc2)
			TYPE_INT:
				put_whole(out, value)
			TYPE_FLOAT:
				assert(not is_nan(value) and not is_inf(value), "cannot send a number that is not finite")
				out.put_u8(0xcb)
				out.put_double(value)
			TYPE_STRING:
				var encoded: PackedByteArray = value.to_utf8_buffer()
				put_length(out, encoded.size(), [0xa0, 32, 0xdb])
				out.put_data(encoded)
			TYPE_PACKED_BYTE_ARRAY:
				put_length(out, value.size(), [0, 0, 0xc6])
				out.put_data(value)
			TYPE_ARRAY:
				put_length(out, value.size(), [0x90, 16, 0xdd])
				for item in value:
					put(out, item)
			TYPE_DICTIONARY:
				put_length(out, value.size(), [0x80, 16, 0xdf])
				for key in value:
					put(out, str(key))
					put(out, value[key])
			_:
				assert(value == null, "cannot send this type; send arrays of numbers as PackedByteArray")
				out.put_u8(0xc0)

	static func put_whole(out: StreamPeerBuffer, value: int) -> void:
		if value >= -32 and value < 128:
			out.put_8(value)
		elif value >= -0x80000000 and value < 0x80000000:
			out.put_u8(0xd2)
			out.put_32(value)
		else:
			out.put_u8(0xd3)
			out.put_64(value)

	## formats: format of a short length, its limit, and format of a length of 32 bits.
	static func put_length(out: StreamPeerBuffer, size: int, formats: Array) -> void:
		if size < formats[1]:
			out.put_u8(formats[0] | size)
		else:
			out.put_u8(formats[2])
			out.put_u32(size)


## Reads a value from MessagePack bytes; error is the code of an error, or empty.
class Reader:
	const LARGEST := 1 << 53
	var error := ""
	var _buffer := StreamPeerBuffer.new()

	func _init(payload: PackedByteArray) -> void:
		_buffer.big_endian = true
		_buffer.data_array = payload

	## Return the only value of the payload.
	func read_all() -> Variant:
		var value = read(16)
		check(_buffer.get_available_bytes() == 0, "frame")
		return value

	func check(is_valid: bool, code: String) -> void:
		if not is_valid and error.is_empty():
			error = code

	func read(levels: int) -> Variant:
		var format := number(1)
		if format < 0x80:
			return format
		if format < 0x90:
			return read_map(format & 15, levels)
		if format < 0xa0:
			return read_list(format & 15, levels)
		if format < 0xc0:
			return read_text(format & 31)
		if format >= 0xe0:
			return format - 256
		match format:
			0xc0:
				return null
			0xc2, 0xc3:
				return format == 0xc3
			0xc4, 0xc5, 0xc6:
				return read_bytes(number(1 << (format - 0xc4)))
			0xca, 0xcb:
				return read_real(format)
			0xcc, 0xcd, 0xce, 0xcf:
				return checked(number(1 << (format - 0xcc)), 0)
			0xd0, 0xd1, 0xd2, 0xd3:
				return checked(read_signed(1 << (format - 0xd0)), -LARGEST)
			0xd9, 0xda, 0xdb:
				return read_text(number(1 << (format - 0xd9)))
			0xdc, 0xdd:
				return read_list(number(2 << (format - 0xdc)), levels)
			0xde, 0xdf:
				return read_map(number(2 << (format - 0xde)), levels)
		check(false, "frame")
		return null

	## Return an unsigned number of so many bytes; 8 bytes are signed.
	func number(size: int) -> int:
		var result := 0
		check(size <= _buffer.get_available_bytes(), "frame")
		if error.is_empty():
			for _index in size:
				result = (result << 8) | _buffer.get_u8()
		return result

	## Return a signed number of so many bytes.
	func read_signed(size: int) -> int:
		var bits := number(size)
		return bits if size == 8 or bits < 1 << (8 * size - 1) else bits - (1 << (8 * size))

	## Return a number between lowest and 2^53.
	func checked(whole: int, lowest: int) -> int:
		check(whole <= LARGEST and whole >= lowest, "value")
		return whole

	func read_real(format: int) -> float:
		check(_buffer.get_available_bytes() >= (4 if format == 0xca else 8), "frame")
		if not error.is_empty():
			return 0.0
		var real := _buffer.get_float() if format == 0xca else _buffer.get_double()
		check(not is_nan(real) and not is_inf(real), "value")
		return real

	func read_bytes(size: int) -> PackedByteArray:
		check(size <= _buffer.get_available_bytes(), "frame")
		return _buffer.get_data(size)[1] if error.is_empty() and size > 0 else PackedByteArray()

	func read_text(size: int) -> String:
		var encoded := read_bytes(size)
		var text := encoded.get_string_from_utf8()
		check(text.to_utf8_buffer() == encoded, "frame")
		return text

	func read_list(size: int, levels: int) -> Array:
		var list := []
		check(levels > 0, "frame")
		while list.size() < size and error.is_empty():
			list.append(read(levels - 1))
		return list

	func read_map(size: int, levels: int) -> Dictionary:
		var items := read_list(2 * size, levels)
		var map := {}
		for index in range(0, items.size() - 1, 2):
			check(typeof(items[index]) == TYPE_STRING, "frame")
			map[items[index]] = items[index + 1]
		return map


## The protocol of a game session, without sockets. A transport sends and empties output. error is an "error" or "bye".
class Session:
	var output := []
	var running := {}  # numbers of matches
	var welcome := {}
	var resume := ""
	var error := {}
	var is_begun := false
	var _hello := {"type": "hello", "protocol": [1, 1], "client": "ludus_client.gd/1"}
	var _waiting := []  # numbers and payloads of messages without acknowledgement
	var _received := 0
	var _sent := 0
	var _is_open := false

	func _init(hello: Dictionary) -> void:
		for key in hello:
			_hello[key] = hello[key]

	## Forget the session; return a match_void for every match that was running.
	func reset() -> Array:
		var lost := []
		for number in running:
			lost.append({"type": "match_void", "match": number, "reason": "the session was lost"})
		running = {}
		resume = ""
		_waiting = []
		_received = 0
		_sent = 0
		return lost

	## Begin a connection.
	func connect_again() -> void:
		var hello := _hello.duplicate()
		hello["resume"] = resume
		hello["ack"] = _received
		output = [Codec.encode(hello)]
		is_begun = true
		_is_open = false

	## Send a numbered message about a match; return false, and send nothing, if the match is not running.
	func send(type: String, number: int, fields: Dictionary) -> bool:
		if not running.has(number):
			return false
		if _waiting.size() >= welcome.limits.unacknowledged:
			fail("sequence", "%d messages wait for an acknowledgement" % _waiting.size())
			return false
		var message := {"type": type, "match": number, "seq": _sent + 1, "ack": _received}
		for key in fields:
			message[key] = fields[key]
		_sent += 1
		_waiting.append([_sent, Codec.encode(message)])
		if _is_open:
			output.append(_waiting[-1][1])
		if type == "match_end" or type == "match_void":
			running.erase(number)
		return true

	## Process a payload; return its message if it concerns the game, else an empty one.
	func receive(payload: PackedByteArray) -> Dictionary:
		var reader := Reader.new(payload)
		var value = reader.read_all()
		if not reader.error.is_empty() or typeof(value) != TYPE_DICTIONARY:
			return fail("frame" if reader.error.is_empty() else reader.error, "the payload is malformed")
		var message: Dictionary = value
		var type: String = message.get("type", "")
		var number: int = message.get("match", 0)
		var seq: int = message.get("seq", 0)
		if type == "error" or type == "bye":
			return fail(message.get("code", "bye"), message.get("text", message.get("reason", "")))
		if not _is_open and type != "welcome":
			return fail("order", "expected welcome, got %s" % type)
		while not _waiting.is_empty() and _waiting[0][0] <= message.get("ack", 0):
			_waiting.pop_front()
		if type in NUMBERED and seq != _received + 1:
			return {} if seq <= _received else fail("sequence", "expected %d, got %d" % [_received + 1, seq])
		_received = maxi(_received, seq)
		match type:
			"welcome":
				welcome = message
				resume = message.resume
				_is_open = true
				for sent in _waiting:
					output.append(sent[1])
			"ping":
				var clock := Time.get_ticks_msec() / 1000.0
				output.append(Codec.encode({"type": "pong", "ack": _received, "time": message.time, "clock": clock}))
				return {}
			"match_start":
				running[number] = true
			"match_void":
				return message if running.erase(number) else {}
			"action":
				return message if running.has(number) else {}
		return message

	func fail(code: String, text: String) -> Dictionary:
		error = {"type": "bye" if code == "bye" else "error", "code": code, "text": text}
		return {}


## The actions of a seat in real-time mode: which one is in effect on a tick, and which ones were dropped.
class SeatClock:
	var _timing: Dictionary
	var _no_op: Array
	var _current: Array
	var _asked := {}  # actions that may still take effect, or null, by tick of their observation, in order
	var _dropped := []

	## timing: the seat's entry of welcome.timing.
	func _init(timing: Dictionary, no_op: Array) -> void:
		_timing = timing
		_no_op = no_op
		_current = no_op

	## Note that an observation was sent; return its key dropped.
	func ask(tick: int) -> Array:
		var dropped := _dropped
		_dropped = []
		_asked[tick] = null
		return dropped

	## Keep the action for the observation of a tick.
	func receive(tick: int, action: Array) -> void:
		if _asked.has(tick):
			_asked[tick] = action

	## Return the action in effect on a tick. Call it once for every tick, in order.
	func action(tick: int) -> Array:
		var newest := -1
		var is_missing := false
		for asked in _asked:
			if _asked[asked] != null and asked + _timing.delay <= tick:
				newest = asked
				_current = _asked[asked]
		for asked in _asked.keys():
			if asked > newest and tick <= asked + _timing.max_age:
				is_missing = is_missing or (_asked[asked] == null and asked + _timing.delay <= tick)
				continue
			_asked.erase(asked)
			if asked != newest:
				_dropped.append(asked)
		if is_missing and _timing.missing == "no-op":
			_current = _no_op
		return _current
