package secret

import "bytes"

// Variable is a secret as the value of an environment variable: without one newline at the end,
// which editors and shells leave in a file and which no password has.
func Variable(value []byte) string {
	out, cut := bytes.CutSuffix(value, []byte("\n"))
	if cut {
		out = bytes.TrimSuffix(out, []byte("\r"))
	}
	return string(out)
}
