package file

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// allDocuments has the documents of a file be a list.
const allDocuments = "*"

// yamlDoc is a document of a file: its part of the text, after as many empty lines as stand before
// it, so that lines are counted alike.
type yamlDoc struct {
	begin, end int // of the part
	before     string
	text       string
	root       *yaml.Node
	value      any
}

// documents are those of a text that have something in them.
func documents(raw []byte) ([]*yamlDoc, error) {
	s, newline := string(raw), lineBreak(raw)
	begin, open := 0, false
	var out []*yamlDoc
	add := func(end int) error {
		before := strings.Repeat(newline, strings.Count(s[:begin], "\n"))
		d := &yamlDoc{begin: begin, end: end, before: before, text: before + s[begin:end]}
		begin, open = end, false
		var err error
		if d.root, err = yamlRoot([]byte(d.text)); err != nil {
			return err
		}
		if d.value = newReader().Value(d.root); d.value != nil {
			out = append(out, d)
		}
		return nil
	}
	at := 0
	for line := range strings.Lines(s) {
		text := strings.TrimPrefix(line, bom)
		marker := isMarker(text)
		starts := marker && text[0] == '-'
		if starts && open {
			if err := add(at); err != nil {
				return nil, err
			}
		}
		at += len(line)
		open = open || starts || !blank(text) && text[0] != '%' && !strings.HasPrefix(strings.TrimLeft(text, " \t"), "#")
		if marker && !starts && open {
			if err := add(at); err != nil {
				return nil, err
			}
		}
	}
	if open {
		if err := add(len(s)); err != nil {
			return nil, err
		}
	} else if n := len(out); n > 0 && out[n-1].end == begin { // comments at the end
		out[n-1].end, out[n-1].text = len(s), out[n-1].text+s[begin:]
	}
	return out, nil
}

// chosen are the documents that the driver has the objects in: one, or all.
func (f yamlFormat) chosen(raw []byte) ([]*yamlDoc, error) {
	all, err := documents(raw)
	if err != nil || f.document == allDocuments {
		return all, err
	}
	var fits []*yamlDoc
	for i, d := range all {
		if f.document == "" || f.document == strconv.Itoa(i+1) || matches(d.value, f.document) {
			fits = append(fits, d)
		}
	}
	switch {
	case len(fits) == 1:
		return fits, nil
	case len(all) == 0:
		return nil, errors.New("it has no document with something in it")
	case len(fits) == 0:
		return nil, fmt.Errorf("none of its documents is %s: it has %d", f.document, len(all))
	case f.document != "":
		return nil, fmt.Errorf("%d of its documents are %s: name the one by more of its members, as in kind=ConfigMap,metadata/name=web", len(fits), f.document)
	}
	return nil, fmt.Errorf("it has %d documents, the second begins at line %d: name the one with the objects by the option document, as a number or by members of it (kind=ConfigMap,metadata/name=web), or set document=* where each is an object", len(all), all[1].root.Line)
}

// matches reports whether a document has the members that a choice names.
func matches(v any, choice string) bool {
	for part := range strings.SplitSeq(choice, ",") {
		path, want, is := strings.Cut(part, "=")
		if have, named := identity(path).name(v); !is || !named || have != want {
			return false
		}
	}
	return true
}

// edited is the text of the document after an edit of it.
func (d *yamlDoc) edited(next any) (string, error) {
	e, err := newYAMLEdit(d.text, d.root)
	if err != nil {
		return "", err
	}
	out := d.text
	if !same(e.root.value, next) {
		if out, err = e.document(next); err != nil {
			return "", err
		}
		if v, err := (yamlFormat{}).parse([]byte(out)); !strings.HasSuffix(out, "\n") && (err != nil || !same(v, next)) {
			out += e.newline // of a block scalar that is the last now
		}
	}
	text, is := strings.CutPrefix(out, d.before)
	if !is {
		return "", fmt.Errorf("the layout before line %d is none that an edit can keep", d.root.Line)
	}
	return text, nil
}

// oneOfAll changes, adds or removes a document that is an object.
func oneOfAll(raw []byte, all []*yamlDoc, named identity, id string, to map[string]any) ([]byte, error) {
	s, newline := string(raw), lineBreak(raw)
	for _, d := range all {
		if name, is := named.name(d.value); !is || name != id {
			continue
		}
		if to == nil {
			return []byte(s[:d.cut()] + s[d.end:]), nil
		}
		text, err := d.edited(to)
		return []byte(s[:d.begin] + text + s[d.end:]), err
	}
	if to == nil || len(all) == 0 {
		return nil, errors.New("the file has no such document")
	}
	e, err := newYAMLEdit(all[0].text, all[0].root)
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(s, "\n") {
		s += newline
	}
	return []byte(s + "---" + newline + e.members(to, 0)), nil
}

// cut is where a document begins that is removed: what stands before the first one stays.
func (d *yamlDoc) cut() int {
	if i := strings.Index(d.text, "\n---"); d.begin == 0 && i >= 0 && blankOrComment(d.text[:i]) {
		return i + 1
	}
	return d.begin
}

func blankOrComment(s string) bool {
	for line := range strings.Lines(s) {
		if is, _ := comment(line); !is && !blank(line) {
			return false
		}
	}
	return true
}

// identity is what names an element of a list: a member, or several as in kind,metadata/name, each
// at the end of a path.
type identity string

// path reports whether it is more than one member of the element itself, and so part of the config.
func (i identity) path() bool { return strings.ContainsAny(string(i), ",/") }

// name is that of an element.
func (i identity) name(v any) (string, bool) {
	var out []string
	for path := range strings.SplitSeq(string(i), ",") {
		at := v
		for step := range strings.SplitSeq(path, "/") {
			m, _ := at.(map[string]any)
			at = m[step]
		}
		name, is := nameOf(at)
		if !is {
			return "", false
		}
		out = append(out, name)
	}
	return strings.Join(out, "/"), true
}
