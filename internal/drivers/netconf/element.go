package netconf

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
)

// maxDepth bounds the elements of a message within each other.
const maxDepth = 64

// nsBase is the namespace of NETCONF's own elements (RFC 6241).
const nsBase = "urn:ietf:params:xml:ns:netconf:base:1.0"

// element is one of XML. Attributes that stand for no data are left out.
type element struct {
	xml.Name
	text     string
	children []*element
	attrs    []xml.Attr
	prefixes map[string]string // in scope, with their namespaces
}

// parse reads one document.
func parse(raw []byte) (*element, error) {
	d := xml.NewDecoder(bytes.NewReader(raw))
	var stack []*element
	var root *element
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) && root != nil && len(stack) == 0 {
			return root, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the device's message is no XML: %w", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{Name: token.Name, attrs: token.Attr}
			if n := len(stack); n > 0 {
				e.prefixes = stack[n-1].prefixes
				stack[n-1].children = append(stack[n-1].children, e)
			} else if root != nil {
				return nil, errors.New("the device's message has two roots")
			} else {
				root = e
			}
			e.declare(token.Attr)
			if stack = append(stack, e); len(stack) > maxDepth {
				return nil, errors.New("the device's message is too deep")
			}
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			if n := len(stack); n > 0 {
				stack[n-1].text += string(token)
			}
		}
	}
}

func (e *element) declare(attrs []xml.Attr) {
	for _, a := range attrs {
		if a.Name.Space == "xmlns" {
			e.prefixes = maps.Clone(e.prefixes)
			if e.prefixes == nil {
				e.prefixes = map[string]string{}
			}
			e.prefixes[a.Name.Local] = a.Value
		}
	}
}

// child returns the first one of a name, or nil.
func (e *element) child(local string) *element {
	if e == nil {
		return nil
	}
	for _, c := range e.children {
		if c.Local == local {
			return c
		}
	}
	return nil
}

// line is the text of the first child of a name, without spaces around it.
func (e *element) line(local string) string {
	if c := e.child(local); c != nil {
		return strings.TrimSpace(c.text)
	}
	return ""
}

// write appends the element as XML; within is the default namespace there.
func (e *element) write(b *strings.Builder, within string) {
	b.WriteString("<" + e.Local)
	if e.Space != within {
		b.WriteString(` xmlns="` + escape(e.Space) + `"`)
	}
	for _, a := range e.attrs {
		b.WriteString(" " + a.Name.Local + `="` + escape(a.Value) + `"`)
	}
	if e.text == "" && len(e.children) == 0 {
		b.WriteString("/>")
		return
	}
	b.WriteString(">" + escape(e.text))
	for _, c := range e.children {
		c.write(b, e.Space)
	}
	b.WriteString("</" + e.Local + ">")
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder does not fail
	return b.String()
}
