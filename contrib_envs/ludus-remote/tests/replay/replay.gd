# The Godot client for test_remote_clients.py: runs commands, one on each line of a file, or plays with a gateway.
# The last arguments: path of the client, and path of the commands; or path of the client, port, token, matches.
extends SceneTree

var client: GDScript
var session = null
var clock = null


func _init() -> void:
	var arguments := OS.get_cmdline_user_args()
	if arguments[-1].is_valid_int():
		client = load(arguments[-4])
		play(int(arguments[-3]), arguments[-2], int(arguments[-1]))
		quit()
		return
	client = load(arguments[-2])
	for line in FileAccess.get_file_as_string(arguments[-1]).strip_edges().split("\n"):
		run(line.split(" "))
		if session != null:
			if not session.error.is_empty():
				print("error ", session.error.code)
				session.error = {}
			for payload in session.output:
				print("sent ", to_hex(payload))
			session.output.clear()
	quit()


func play(port: int, token: String, matches: int) -> void:
	var leaf := {"dtype": "float32", "shape": [3], "low": 0, "high": 6}
	var role := {"name": "player", "teams": [0, 1], "leaves": {"numbers": leaf}, "labels": [4], "statistics": ["last"]}
	var schema := {"roles": [role], "turn": "simultaneous", "constant_sum": true}
	var hello := {"game": "numbers", "token": token, "matches": matches, "schema": schema}
	var connection = client.new("127.0.0.1", port, hello, 1)
	var games := {}
	while true:
		for message in connection.poll():
			if message.type == "bye" or message.type == "error":
				return
			if message.type == "match_start":
				games[message.match] = {"tick": 0, "last": [message.seed % 4, 0]}
			if message.type == "action":
				games[message.match].tick += 1
				for entry in message.actions:
					games[message.match].last[entry.seat] = entry.action[0]
			if message.type == "match_start" or message.type == "action":
				answer(connection, message.match, games[message.match])
		OS.delay_msec(1)


func answer(connection, number: int, game: Dictionary) -> void:
	var seats := []
	for seat in 2:
		var numbers := StreamPeerBuffer.new()
		for item in [game.tick, game.last[seat], game.last[1 - seat]]:
			numbers.put_float(item)
		var reward: int = game.last[seat] - game.last[1 - seat] if game.tick > 0 else 0
		var leaves := {"numbers": numbers.data_array}
		seats.append({"seat": seat, "acts": game.tick < 6, "leaves": leaves, "reward": reward})
	if game.tick < 6:
		connection.send("observation", number, {"tick": game.tick, "seats": seats})
		return
	var fields := {"tick": 6, "seats": seats, "ending": "terminated", "outcome": [1, 0]}
	fields["statistics"] = [{"last": game.last[0]}, {"last": game.last[1]}]
	connection.send("match_end", number, fields)


func run(words: PackedStringArray) -> void:
	match words[0]:
		"decode":
			var reader = client.Reader.new(from_hex(words[1]))
			var value = reader.read_all()
			if reader.error.is_empty():
				print("value ", to_hex(client.Codec.encode(value)))
			else:
				print("error ", reader.error)
		"hello":
			if session == null:
				session = client.Session.new(without(words[1], ["type", "protocol", "client", "resume", "ack"]))
			session.connect_again()
		"gateway":
			var message = session.receive(from_hex(words[1]))
			if not message.is_empty():
				print_event(message)
		"game":
			var message = without(words[1], ["seq", "ack"])
			if not session.send(message.type, message.match, without(words[1], ["type", "match", "seq", "ack"])):
				if session.error.is_empty():
					print("unsent %s %d" % [message.type, message.match])
		"reset":
			for message in session.reset():
				print_event(message)
		"clock":
			clock = client.SeatClock.new({"delay": int(words[1]), "max_age": int(words[2]), "missing": words[3]}, [0])
		"ask":
			var line := "dropped"
			for tick in clock.ask(int(words[1])):
				line += " %d" % tick
			print(line)
		"receive":
			clock.receive(int(words[1]), [int(words[2])])
		"action":
			print("action ", clock.action(int(words[1]))[0])


func print_event(message: Dictionary) -> void:
	print("event %s %d" % [message.type, message.get("match", 0)])


func without(hex: String, keys: Array) -> Dictionary:
	var message: Dictionary = client.Reader.new(from_hex(hex)).read_all()
	for key in keys:
		message.erase(key)
	return message


func from_hex(text: String) -> PackedByteArray:
	var bytes := PackedByteArray()
	for index in range(0, text.length(), 2):
		bytes.append(("0x" + text.substr(index, 2)).hex_to_int())
	return bytes


func to_hex(bytes: PackedByteArray) -> String:
	var text := ""
	for byte in bytes:
		text += "%02x" % byte
	return text
