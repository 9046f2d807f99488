package file

import "strings"

// piece is a value as it stands in a text of JSON or TOML: a scalar, or a container with its
// items.
type piece struct {
	start, end int
	open       byte // of a container: { or [
	head       int  // after its bracket, and a comment in that line
	items      []item
}

// item is a member of a container, with its key, or an element. Before it stand the comments
// that describe it, after it a comma and a comment in its line.
type item struct {
	key        []string // several where TOML has dots
	begin      int      // of the key, or the value
	value      *piece
	comma, end int // the comma is -1 where there is none
}

// reader finds the pieces of a text that a parser has accepted. Where a text is not what it
// takes it for, the edit that comes of it does not pass the check.
type reader struct {
	raw  string
	pos  int
	text func(quoted string) string // what a quoted key stands for
}

func (r *reader) peek() byte {
	if r.pos < len(r.raw) {
		return r.raw[r.pos]
	}
	return 0
}

// comment skips one, and reports whether it ends with its line.
func (r *reader) comment() (skipped, line bool) {
	rest := r.raw[r.pos:]
	switch {
	case strings.HasPrefix(rest, "#"), strings.HasPrefix(rest, "//"):
		r.pos = r.lineEnd()
		return true, true
	case strings.HasPrefix(rest, "/*"):
		n := strings.Index(rest, "*/")
		if n < 0 {
			n = len(rest) - 2
		}
		r.pos += n + 2
		return true, false
	}
	return false, false
}

// lineEnd is where the line ends, before its line break.
func (r *reader) lineEnd() int {
	n := strings.IndexByte(r.raw[r.pos:], '\n')
	if n < 0 {
		return len(r.raw)
	}
	if n > 0 && r.raw[r.pos+n-1] == '\r' {
		n--
	}
	return r.pos + n
}

func (r *reader) spaces() {
	for r.peek() == ' ' || r.peek() == '\t' {
		r.pos++
	}
}

// blank skips white space, line breaks and comments.
func (r *reader) blank() {
	for r.pos < len(r.raw) {
		if strings.IndexByte(" \t\r\n", r.raw[r.pos]) >= 0 {
			r.pos++
		} else if skipped, _ := r.comment(); !skipped {
			return
		}
	}
}

// sameLine skips a comment that the line ends with.
func (r *reader) sameLine() {
	before := r.pos
	r.spaces()
	skipped, _ := r.comment()
	if !skipped {
		r.pos = before
		return
	}
	after := r.pos
	if r.spaces(); strings.IndexByte("\r\n", r.peek()) < 0 && r.pos < len(r.raw) && r.peek() != '}' && r.peek() != ']' {
		r.pos = before
		return
	}
	r.pos = after
}

// quoted skips a text in quotes, over several lines where there are three of them.
func (r *reader) quoted() {
	quote := r.raw[r.pos : r.pos+1]
	if long := strings.Repeat(quote, 3); strings.HasPrefix(r.raw[r.pos:], long) {
		quote = long
	}
	r.pos += len(quote)
	for r.pos < len(r.raw) && !strings.HasPrefix(r.raw[r.pos:], quote) {
		if r.raw[r.pos] == '\\' && quote[0] == '"' {
			r.pos++
		}
		r.pos++
	}
	r.pos += len(quote)
	for range 2 { // quotes that stand before the three at the end
		if len(quote) == 3 && r.peek() == quote[0] {
			r.pos++
		}
	}
	r.pos = min(r.pos, len(r.raw))
}

// key reads a key to what follows it.
func (r *reader) key() (key []string) {
	for {
		from := r.pos
		if c := r.peek(); c == '"' || c == '\'' {
			r.quoted()
			key = append(key, r.text(r.raw[from:r.pos]))
		} else {
			for r.pos < len(r.raw) && strings.IndexByte(" \t.=:]\r\n", r.raw[r.pos]) < 0 {
				r.pos++
			}
			key = append(key, r.raw[from:r.pos])
		}
		r.spaces()
		if r.peek() != '.' {
			return key
		}
		r.pos++
		r.spaces()
	}
}

// assigned skips what stands between a key and its value.
func (r *reader) assigned() {
	r.blank()
	r.pos++
	r.blank()
}

func (r *reader) value() *piece {
	p := &piece{start: r.pos}
	switch c := r.peek(); c {
	case '"', '\'':
		r.quoted()
	case '{', '[':
		r.container(p, c)
	default:
		r.scalar()
	}
	p.end = r.pos
	return p
}

func (r *reader) scalar() {
	const ends = ",]}#/ \t\r\n"
	from := r.pos
	for r.pos < len(r.raw) && strings.IndexByte(ends, r.raw[r.pos]) < 0 {
		r.pos++
	}
	// A date and a time of TOML may have a space between them.
	if date := r.raw[from:r.pos]; len(date) == len("2006-01-02") && date[4] == '-' && r.peek() == ' ' && len(r.raw) > r.pos+3 && r.raw[r.pos+3] == ':' {
		for r.pos++; r.pos < len(r.raw) && strings.IndexByte(ends, r.raw[r.pos]) < 0; {
			r.pos++
		}
	}
}

func (r *reader) container(p *piece, open byte) {
	p.open = open
	r.pos++
	r.sameLine()
	p.head = r.pos
	for {
		r.blank()
		if c := r.peek(); c == '}' || c == ']' || c == 0 {
			r.pos = min(r.pos+1, len(r.raw))
			return
		}
		it := item{begin: r.pos, comma: -1}
		if open == '{' {
			it.key = r.key()
			r.assigned()
		}
		if it.value = r.value(); it.value.end == it.begin {
			return // no item at all: the text is none that a parser accepts
		}
		if r.blank(); r.peek() == ',' {
			it.comma = r.pos
			r.pos++
		} else {
			r.pos = it.value.end
		}
		r.sameLine()
		it.end = r.pos
		p.items = append(p.items, it)
	}
}
