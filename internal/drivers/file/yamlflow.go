package file

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"
)

// between is what stands around an item between brackets: before it, with the line break that
// begins its line, and after it, with its comma and the comment of its line.
type between struct{ before, after string }

// brackets is the new text of a flow collection, as assemble.
func (e *yamlEdit) brackets(n *ynode, order []int, what func(j int) (any, string)) (string, error) {
	texts := make([]string, len(order))
	style := e.yamlStyle
	style.quoted = style.quoted || quotedKeys(n)
	same := len(order) == len(n.items)
	for j, i := range order {
		v, key := what(j)
		same = same && i == j
		var err error
		switch {
		case i >= 0:
			if texts[j], err = e.flowItem(n.items[i], v); err != nil {
				return "", e.inItem(n, i, err)
			}
		case n.kind == yaml.MappingNode:
			texts[j] = style.key(key, n.items, true) + ": " + style.inline(v, nil, true)
		default:
			texts[j] = style.inline(v, nil, true)
		}
	}
	if same {
		return e.inPlace(n, texts), nil
	}
	if n.column < 0 {
		return "", fmt.Errorf("the pair in line %d has no brackets of its own: write them", e.line(n.begin))
	}
	seps, closing, err := e.separators(n)
	if err != nil {
		return "", err
	}
	return e.s[n.begin:n.start+1] + e.joined(seps, order, texts) + closing, nil
}

// quotedKeys reports whether a mapping is written as JSON is.
func quotedKeys(n *ynode) bool {
	for _, it := range n.items {
		if it.key == nil || it.key.style != '"' {
			return false
		}
	}
	return n.flow && len(n.items) > 0
}

// inPlace is a collection with other texts of its items.
func (e *yamlEdit) inPlace(n *ynode, texts []string) string {
	var out strings.Builder
	at := n.begin
	for i, it := range n.items {
		out.WriteString(e.s[at:it.begin] + texts[i])
		at = e.flowEnd(it)
	}
	return out.String() + e.s[at:n.end]
}

func (e *yamlEdit) flowEnd(it *yitem) int { return max(it.value.end, it.mark) }

func (e *yamlEdit) flowItem(it *yitem, to any) (string, error) {
	v := it.value
	if sameValue := same(v.value, to); sameValue {
		return e.s[it.begin:e.flowEnd(it)], nil
	}
	if !v.flow {
		v.flow = v.kind == yaml.ScalarNode // its text is one between brackets
	}
	lead := e.s[it.begin:v.begin]
	if it.bare {
		lead = e.s[it.begin:it.mark] + ":"
	}
	if e.keeps(v, to) {
		text, err := e.render(v, to)
		return lead + text, err
	}
	if err := e.replaced(v, to); err != nil {
		return "", err
	}
	if v.anchor != "" {
		lead += "&" + v.anchor + " "
	}
	if strings.HasSuffix(lead, ":") {
		lead += " "
	}
	return lead + e.inline(to, v, true), nil
}

// separators are those of the items, each with the comment of its line, and the end.
func (e *yamlEdit) separators(n *ynode) ([]between, string, error) {
	out := make([]between, len(n.items))
	if len(out) == 0 {
		return nil, e.s[n.end-1 : n.end], nil
	}
	out[0].before = e.s[n.start+1 : n.items[0].begin]
	for i, it := range n.items {
		end := n.end - 1
		if i+1 < len(n.items) {
			end = n.items[i+1].begin
		}
		text := e.s[e.flowEnd(it):end]
		cut := strings.IndexByte(text, '\n')
		if cut > 0 && text[cut-1] == '\r' {
			cut--
		}
		if cut < 0 {
			cut = strings.IndexByte(text, ',') + 1
		}
		out[i].after = text[:cut]
		if i+1 == len(n.items) {
			return out, text[cut:] + e.s[n.end-1:n.end], nil
		}
		if out[i+1].before = text[cut:]; !strings.HasPrefix(strings.TrimLeft(text, " \t"), ",") {
			break
		}
	}
	return nil, "", fmt.Errorf("the layout in line %d is none that an edit can keep: write each comma right after its element", e.line(n.begin))
}

func multiline(s string) bool { return strings.Contains(s, "\n") }

// joined is items with their separators: what begins a line does so at another place too.
func (e *yamlEdit) joined(seps []between, order []int, texts []string) string {
	trailing := len(seps) > 0 && strings.Contains(withoutComment(seps[len(seps)-1].after), ",")
	var out strings.Builder
	note := ""
	for j, i := range order {
		before := ""
		switch {
		case i >= 0 && (multiline(seps[i].before) || (i == 0) == (j == 0)):
			before = seps[i].before
		case j == 0 && len(seps) > 0 && !strings.Contains(seps[0].before, "#"):
			before = seps[0].before
		case j > 0 && len(seps) > 0 && (i < 0 && multiline(seps[len(seps)-1].before) || strings.Contains(note, "#")):
			last := seps[len(seps)-1].before
			before = e.newline + last[strings.LastIndexByte(last, '\n')+1:]
		case j > 0 && len(seps) > 1 && !multiline(seps[len(seps)-1].before):
			before = seps[len(seps)-1].before
		case j > 0:
			before = " "
		}
		note = ""
		if i >= 0 {
			note = strings.TrimPrefix(strings.TrimLeft(seps[i].after, " \t"), ",")
			if strings.TrimSpace(note) == "" {
				note = ""
			}
		}
		comma := ","
		if j == len(order)-1 && !trailing {
			comma = ""
		}
		if strings.HasPrefix(note, "#") {
			note = " " + note
		}
		out.WriteString(before + texts[j] + comma + note)
	}
	return out.String()
}

func withoutComment(s string) string {
	before, _, _ := strings.Cut(s, "#")
	return before
}
