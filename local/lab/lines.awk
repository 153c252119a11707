# Prints a line for each package that ends in the output of go test -json, and the output of packages that fail.
function field(name, i, rest) {
	i = index($0, "\"" name "\":\"")
	if (!i) return ""
	rest = substr($0, i + length(name) + 4)
	match(rest, /^([^"\\]|\\.)*/)
	return substr(rest, 1, RLENGTH)
}
function plain(text) {
	gsub(/\\\\/, "\001", text); gsub(/\\n/, "\n", text); gsub(/\\t/, "\t", text); gsub(/\\"/, "\"", text)
	gsub(/\\u003c/, "<", text); gsub(/\\u003e/, ">", text); gsub(/\\u0026/, "\\&", text); gsub(/\\u001b\[[0-9;]*m/, "", text); gsub("\001", "\\", text)
	return text
}
!/^\{/ { print; next }
{ action = field("Action"); package = field("Package"); test = field("Test") }
action == "build-output" { printf "%s", plain(field("Output")) }
action == "output" { text = field("Output"); if (text !~ /^ *(=== |--- (PASS|SKIP))/) output[package, test] = output[package, test] plain(text) }
test != "" && (action == "pass" || action == "skip") { delete output[package, test] }
test == "" && (action == "pass" || action == "fail" || action == "skip") {
	elapsed = "?"
	if (match($0, /"Elapsed":[0-9.]+/)) elapsed = substr($0, RSTART + 10, RLENGTH - 10) "s"
	for (key in output) {
		split(key, part, SUBSEP)
		if (part[1] != package) continue
		if (action == "fail") printf "%s", output[key]
		delete output[key]
	}
	if (action != "skip") printf "%-5s %-60s %s\n", action == "pass" ? "ok" : "FAIL", package, elapsed
	fflush()
}
