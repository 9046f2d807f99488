package imageref

import (
	"slices"
	"strings"
)

// Bases lists the images that a Dockerfile is built on or copies from, in order.
// A name that only the builder can work out is left to it.
func Bases(text string, args map[string]string) []string {
	r := reader{args: args, stages: map[string]bool{}, known: map[string]string{}}
	var out []string
	for _, block := range blocks(text) {
		for _, u := range r.uses(strings.Fields(block.line)) {
			if !slices.Contains(out, u.ref) {
				out = append(out, u.ref)
			}
		}
	}
	return out
}

// PinBases writes the digests of images, by the names that Bases gives them, into a
// Dockerfile. Everything else of it stays as it is.
func PinBases(text string, args, digests map[string]string) string {
	r := reader{args: args, stages: map[string]bool{}, known: map[string]string{}}
	var out strings.Builder
	for _, block := range blocks(text) {
		words := strings.Fields(block.line)
		raw := block.raw
		for _, u := range r.uses(words) {
			if digests[u.ref] == "" {
				continue
			}
			pinned := u.flag + u.ref + "@" + digests[u.ref]
			if u.flag == "" { // FROM has words alone
				words[u.word] = pinned
				raw = strings.Join(words, " ") + "\n"
				continue
			}
			raw = strings.Replace(raw, words[u.word], pinned, 1)
		}
		out.WriteString(raw)
	}
	return out.String()
}

// use is a place where an instruction names an image.
type use struct {
	word int
	flag string // before the name, such as --from=
	ref  string
}

// reader knows what was said so far.
type reader struct {
	args, known map[string]string
	stages      map[string]bool
	begun       bool
}

// uses reads the next instruction.
func (r *reader) uses(words []string) (out []use) {
	if len(words) == 0 {
		return nil
	}
	add := func(word int, flag, name string) {
		ref, ok := expand(name, r.known)
		if ok && ref != "" && ref != "scratch" && !r.stages[strings.ToLower(ref)] && strings.Trim(ref, "0123456789") != "" {
			out = append(out, use{word, flag, ref})
		}
	}
	switch strings.ToUpper(words[0]) {
	case "ARG":
		if !r.begun {
			global(words[1:], r.args, r.known)
		}
	case "FROM":
		r.begun = true
		first := 1
		for first < len(words) && strings.HasPrefix(words[first], "--") {
			first++
		}
		rest := words[first:]
		if len(rest) > 0 {
			add(first, "", rest[0])
		}
		if len(rest) == 3 && strings.EqualFold(rest[1], "AS") {
			r.stages[strings.ToLower(rest[2])] = true
		}
	case "COPY":
		const flag = "--from="
		for i, w := range words {
			if name, ok := strings.CutPrefix(w, flag); ok {
				add(i, flag, name)
			}
		}
	}
	return out
}

// block is one instruction with the comments before and in it, as written and in
// one line.
type block struct{ raw, line string }

// blocks joins continued lines and leaves comments out of line. Nothing of the text
// is lost.
func blocks(text string) []block {
	var out []block
	var next block
	for raw := range strings.Lines(text) {
		next.raw += raw
		line := strings.TrimSpace(raw)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if rest, more := strings.CutSuffix(line, `\`); more {
			next.line += rest + " "
			continue
		}
		next.line += line
		out, next = append(out, next), block{}
	}
	if next.raw != "" {
		out = append(out, next)
	}
	return out
}

// Instructions lists the instructions of a Dockerfile, each in one line and without
// comments.
func Instructions(text string) []string {
	var out []string
	for _, b := range blocks(text) {
		if strings.TrimSpace(b.line) != "" {
			out = append(out, b.line)
		}
	}
	return out
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
