# Runs the commands of test_remote_clients.py, one on each line of a file, with the Godot client.
# Arguments: path of the client, path of the commands.
extends SceneTree

var client: GDScript
var session = null
var clock = null


func _init() -> void:
	var arguments := OS.get_cmdline_user_args()
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
