package file

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// chunk is the lines of an item of a block: after a gap, from head on, which are comments right
// above it, to the end of comments below it that are indented more than it is.
type chunk struct{ gap, head, end int }

// lineStart is where the line of a place begins, lineEnd where the next one does.
func (e *yamlEdit) lineStart(at int) int {
	line := strings.LastIndexByte(e.s[:at], '\n') + 1
	if line == 0 && strings.HasPrefix(e.s, bom) {
		return min(len(bom), at)
	}
	return line
}

func (e *yamlEdit) lineEnd(at int) int {
	if i := strings.IndexByte(e.s[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(e.s)
}

// ownLine reports whether nothing stands before a place in its line.
func (e *yamlEdit) ownLine(at int) bool {
	return strings.Trim(e.s[e.lineStart(at):at], " ") == ""
}

// comment reports whether a line has nothing else, and how far it is indented.
func comment(line string) (is bool, indent int) {
	text := strings.TrimLeft(line, " ")
	return strings.HasPrefix(text, "#"), len(line) - len(text)
}

func blank(line string) bool { return strings.TrimSpace(line) == "" }

// region is the text that is the node's alone: for a block that begins in a line of its own whole
// lines, with the comments before its first item and those that belong to its last.
func (e *yamlEdit) region(n *ynode) (from, end int) {
	if n.flow || len(n.items) == 0 {
		return n.begin, n.end
	}
	first := n.items[0].begin
	last := n.items[len(n.items)-1]
	end = e.tail(e.endOf(last), n.column)
	if !e.ownLine(first) {
		return first, end
	}
	from = e.lineStart(first)
	for from > e.lineStart(0) {
		above := e.lineStart(from - 1)
		if is, _ := comment(e.s[above:from]); !is && !blank(e.s[above:from]) {
			break
		}
		from = above
	}
	return from, end
}

// endOf is where the content of an item ends.
func (e *yamlEdit) endOf(it *yitem) int {
	_, end := e.region(it.value)
	return max(end, it.mark)
}

// tail is the end of the lines of an item in a column whose content ends at a place.
func (e *yamlEdit) tail(end, column int) int {
	if end == 0 || e.s[end-1] != '\n' || end < len(e.s) && end > 0 && e.s[end-1] != '\n' {
		end = e.lineEnd(end)
	}
	for at := end; at < len(e.s); {
		next := e.lineEnd(at)
		is, indent := comment(e.s[at:next])
		switch {
		case is && indent > column:
			end = next
		case !blank(e.s[at:next]):
			return end
		}
		at = next
	}
	return end
}

func (e *yamlEdit) chunks(n *ynode) ([]chunk, error) {
	from, _ := e.region(n)
	var out []chunk
	for i, it := range n.items {
		c := chunk{gap: from, head: it.begin}
		if own := e.ownLine(it.begin); own {
			c.head = e.lineStart(it.begin)
			for (n != e.root || i > 0) && c.head > from {
				above := e.lineStart(c.head - 1)
				if is, _ := comment(e.s[above:c.head]); !is {
					break
				}
				c.head = above
			}
		} else if i > 0 {
			return nil, fmt.Errorf("the layout in line %d is none that an edit can keep: begin the line with the field", e.line(it.begin))
		}
		end := e.endOf(it)
		c.end = e.tail(end, n.column)
		if e.s[max(end-1, 0)] != '\n' {
			if rest := e.s[end:e.lineEnd(end)]; !blank(rest) && !strings.HasPrefix(strings.TrimLeft(rest, " \t"), "#") {
				return nil, fmt.Errorf("the layout in line %d is none that an edit can keep: write it in a simpler way", e.line(end))
			}
		}
		from = c.end
		out = append(out, c)
	}
	return out, nil
}

// assemble is the new text of a collection, of its items in an order, -1 for new ones. what
// returns the value of each, and the key of a new one.
func (e *yamlEdit) assemble(n *ynode, order []int, what func(j int) (any, string)) (string, error) {
	stays := map[int]bool{}
	for _, i := range order {
		stays[i] = true
	}
	for i, it := range n.items {
		if !stays[i] {
			if err := e.guard(it.value, true); err != nil {
				return "", err
			}
		}
	}
	if n.flow {
		return e.brackets(n, order, what)
	}
	chunks, err := e.chunks(n)
	if err != nil {
		return "", err
	}
	compact := chunks[0].head == n.items[0].begin && !e.ownLine(chunks[0].head)
	gaps := e.gaps(chunks, order)
	var b strings.Builder
	for j, i := range order {
		v, key := what(j)
		text := ""
		if i >= 0 {
			c := chunks[i]
			if text, err = e.item(n, n.items[i], v, c.end); err != nil {
				return "", e.inItem(n, i, err)
			}
			text = e.s[c.head:n.items[i].begin] + text
			if compact && i == 0 {
				text = strings.Repeat(" ", n.column) + text
			}
		} else if n.kind == yaml.MappingNode {
			text = strings.Repeat(" ", n.column) + e.key(key, n.items, false) + ":" + e.block(v, nil, n.column+e.unit, n.column+e.dash)
		} else {
			text = e.element(v, n.column, e.offset(n))
		}
		if !strings.HasSuffix(text, "\n") {
			if j+1 < len(order) && i >= 0 && e.endsInBlock(n.items[i].value) {
				return "", fmt.Errorf("the file ends in the block scalar of line %d: end its last line first", e.line(n.items[i].begin))
			}
			text += e.newline
		}
		b.WriteString(gaps[j] + text)
	}
	out := b.String() + gaps[len(order)]
	if _, end := e.region(n); end == len(e.s) && !strings.HasSuffix(e.s, "\n") {
		out = strings.TrimSuffix(out, e.newline)
	}
	if compact {
		if is, _ := comment(out); is {
			return e.newline + out, nil
		}
		return strings.TrimLeft(out, " "), nil
	}
	return out, nil
}

// inItem is an error with the step to the item in which its field is, if it has one.
func (e *yamlEdit) inItem(n *ynode, i int, err error) error {
	if !errors.As(err, new(*fieldError)) {
		return err
	}
	if n.kind == yaml.SequenceNode {
		return within(strconv.Itoa(i), err)
	}
	name, _ := e.read.Key(n.items[i].key.is, i)
	return within(name, err)
}

// endsInBlock reports whether the last line of a value is one of a block scalar.
func (e *yamlEdit) endsInBlock(v *ynode) bool {
	for !v.flow && len(v.items) > 0 {
		v = v.items[len(v.items)-1].value
	}
	return v.style == '|' || v.style == '>'
}

// offset is how far the elements of a list are from their dashes.
func (e *yamlEdit) offset(n *ynode) int {
	for _, it := range n.items {
		if v := it.value; v.end > v.begin && e.line(v.begin) == e.line(it.begin) && v.begin-it.begin <= 8 {
			return v.begin - it.begin
		}
	}
	return 2
}

// gaps are the texts before each item in its new order, and after the last. Blank lines around an
// item that goes become those of one gap.
func (e *yamlEdit) gaps(chunks []chunk, order []int) []string {
	gap := func(i int) string { return e.s[chunks[i].gap:chunks[i].head] }
	out := make([]string, len(order)+1)
	rest := func(g string) string {
		if blank(g) {
			return ""
		}
		return g
	}
	old := slices.DeleteFunc(slices.Clone(order), func(i int) bool { return i < 0 })
	if !slices.IsSorted(old) { // each place keeps what stands before it
		for i := range chunks {
			if i < len(order) {
				out[i] = gap(i)
			} else {
				out[len(order)] += rest(gap(i))
			}
		}
		return out
	}
	next := 0
	for j, i := range order {
		if i < 0 {
			continue
		}
		g := gap(i)
		for r := i - 1; r >= next; r-- {
			switch before := gap(r); {
			case blank(g) && (!blank(before) || r == 0 || g == ""):
				g = before
			case !blank(before):
				g = before + g
			}
		}
		out[j], next = g, i+1
	}
	for ; next < len(chunks); next++ {
		out[len(order)] += rest(gap(next))
	}
	return out
}

// item is the new text of an item of a block, to the end of its lines.
func (e *yamlEdit) item(n *ynode, it *yitem, to any, end int) (string, error) {
	v := it.value
	if same(v.value, to) {
		return e.s[it.begin:end], nil
	}
	from, until := e.region(v)
	if e.keeps(v, to) && !it.bare {
		text, err := e.render(v, to)
		return e.s[it.begin:from] + text + e.s[until:end], err
	}
	if it.bare {
		return "", fmt.Errorf("the key in line %d has no value of its own: write one after a colon", e.line(it.begin))
	}
	if err := e.replaced(v, to); err != nil {
		return "", err
	}
	note, rest := e.s[v.end:e.lineEnd(v.end)], e.s[max(e.lineEnd(v.end), min(until, end)):end]
	isBlock := v.style == '|' || v.style == '>' || !v.flow && len(v.items) > 0
	if isBlock {
		note, rest = "", e.s[e.blockEnd(v):end]
		if line := e.lineEnd(it.mark); line < v.end {
			_, c, is := strings.Cut(e.s[it.mark:line], " #")
			if is {
				note = " #" + c
			}
		}
		if len(v.items) > 0 {
			rest = e.loose(v) + rest
		}
	}
	if note = strings.TrimRight(note, " \t\r\n"); note != "" && !strings.HasPrefix(note, " ") && !strings.HasPrefix(note, "\t") {
		note = " " + note
	}
	head := e.s[it.begin:it.mark]
	if v.anchor != "" {
		head += " &" + v.anchor
	}
	return e.written(n, head, to, v, note) + rest, nil
}

// blockEnd is after the last line of a block.
func (e *yamlEdit) blockEnd(v *ynode) int {
	_, end := e.region(v)
	if end > 0 && e.s[end-1] == '\n' {
		return end
	}
	return e.lineEnd(end)
}

// loose are the comments within a block that belong to none of its items.
func (e *yamlEdit) loose(v *ynode) string {
	chunks, err := e.chunks(v)
	if err != nil {
		return ""
	}
	out := ""
	for _, g := range e.gaps(chunks, nil) {
		out += g
	}
	return out
}

// written is an item with a value in a new layout, and the comment of its line.
func (e *yamlEdit) written(n *ynode, head string, to any, old *ynode, note string) string {
	if n.kind == yaml.SequenceNode {
		offset := e.offset(n)
		text := e.block(to, old, n.column+offset, n.column+offset)
		if rest, is := strings.CutPrefix(text, e.newline); is && note == "" && head == "-" {
			return head + strings.Repeat(" ", offset-1) + strings.TrimLeft(rest, " ")
		}
		first, rest, _ := strings.Cut(text, e.newline)
		return head + first + note + e.newline + rest
	}
	first, rest, _ := strings.Cut(e.block(to, old, n.column+e.unit, n.column+e.dash), e.newline)
	return head + first + note + e.newline + rest
}
