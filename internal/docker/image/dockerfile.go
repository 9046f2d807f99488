package image

import (
	"maps"
	"slices"
	"strings"
)

// withLabels ends a Dockerfile with one instruction that sets labels; false where
// that cannot be written safely.
func withLabels(text string, labels map[string]string) (string, bool) {
	last := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		comment, is := strings.CutPrefix(line, "#")
		if name, _, ok := strings.Cut(strings.ToLower(comment), "="); is && ok && strings.TrimSpace(name) == "escape" {
			return "", false // quoting is another one
		}
		if line != "" && !is {
			last = line
		}
	}
	if last == "" || strings.HasSuffix(last, `\`) || strings.Contains(text, "<<") {
		return "", false
	}
	out := strings.TrimRight(text, "\n") + "\nLABEL"
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`)
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if k == "" || strings.ContainsAny(k, "\r\n\"$\\ =") || strings.ContainsAny(labels[k], "\r\n") {
			return "", false
		}
		out += ` "` + k + `"="` + quote.Replace(labels[k]) + `"`
	}
	return out + "\n", true
}
