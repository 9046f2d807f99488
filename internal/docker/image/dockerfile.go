package image

import (
	"maps"
	"slices"
	"strings"
)

// bases lists the images that a Dockerfile is built on or copies from, in order.
// A name that only the builder can work out is left to it.
func bases(text string, args map[string]string) []string {
	stages, known := map[string]bool{}, map[string]string{}
	var out []string
	add := func(ref string) {
		ref, ok := expand(ref, known)
		if ok && ref != "" && ref != "scratch" && !stages[strings.ToLower(ref)] && !slices.Contains(out, ref) && strings.Trim(ref, "0123456789") != "" {
			out = append(out, ref)
		}
	}
	begun := false
	for _, line := range instructions(text) {
		words := strings.Fields(line)
		switch strings.ToUpper(words[0]) {
		case "ARG":
			if !begun {
				global(words[1:], args, known)
			}
		case "FROM":
			begun = true
			rest := slices.DeleteFunc(words[1:], func(w string) bool { return strings.HasPrefix(w, "--") })
			if len(rest) > 0 {
				add(rest[0])
			}
			if len(rest) == 3 && strings.EqualFold(rest[1], "AS") {
				stages[strings.ToLower(rest[2])] = true
			}
		case "COPY":
			for _, w := range words[1:] {
				if ref, ok := strings.CutPrefix(w, "--from="); ok {
					add(ref)
				}
			}
		}
	}
	return out
}

// instructions joins continued lines and leaves out comments.
func instructions(text string) []string {
	var out []string
	whole := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if rest, more := strings.CutSuffix(line, `\`); more {
			whole += rest + " "
			continue
		}
		out, whole = append(out, whole+line), ""
	}
	if strings.TrimSpace(whole) != "" {
		out = append(out, whole)
	}
	return out
}

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

// global notes arguments that are declared before the first FROM.
func global(words []string, args, known map[string]string) {
	for _, w := range words {
		name, value, has := strings.Cut(w, "=")
		if given, ok := args[name]; ok {
			known[name] = given
		} else if value, ok := expand(strings.Trim(value, `"'`), known); has && ok {
			known[name] = value
		}
	}
}

// expand replaces $NAME, ${NAME}, ${NAME:-default} and ${NAME-default}; false if
// a name is not known or is written in another way.
func expand(s string, known map[string]string) (string, bool) {
	var out strings.Builder
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 {
			out.WriteString(s)
			return out.String(), true
		}
		out.WriteString(s[:i])
		s = s[i+1:]
		name, rest := "", ""
		if inner, ok := strings.CutPrefix(s, "{"); ok {
			if name, rest, ok = strings.Cut(inner, "}"); !ok {
				return "", false
			}
		} else {
			n := 0
			for n < len(s) && word(s[n]) {
				n++
			}
			name, rest = s[:n], s[n:]
		}
		name, def, has := strings.Cut(name, "-")
		name, colon := strings.CutSuffix(name, ":")
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r > 127 || !word(byte(r)) }) {
			return "", false
		}
		v, ok := known[name]
		switch {
		case ok && (v != "" || !colon):
			out.WriteString(v)
		case has:
			out.WriteString(def)
		default:
			return "", false
		}
		s = rest
	}
}

func word(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
