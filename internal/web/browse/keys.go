package browse

import (
	"strings"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// keys are those that do not write a letter.
var keys = map[string]string{
	"Tab": kb.Tab, "Enter": kb.Enter, "Escape": kb.Escape, "Space": " ", "Delete": kb.Delete, "Backspace": kb.Backspace,
	"ArrowUp": kb.ArrowUp, "ArrowDown": kb.ArrowDown, "ArrowLeft": kb.ArrowLeft, "ArrowRight": kb.ArrowRight,
	"Home": kb.Home, "End": kb.End, "PageUp": kb.PageUp, "PageDown": kb.PageDown,
}

var modifiers = map[string]chromedp.Modifier{"": chromedp.ModifierNone, "Control": chromedp.ModifierCtrl, "Shift": chromedp.ModifierShift, "Alt": chromedp.ModifierAlt}

// Press presses keys, one after the other: a letter, Enter, ArrowDown, Control+k, …
func (p *Page) Press(names ...string) {
	p.t.Helper()
	for _, name := range names {
		held, key, ok := strings.Cut(name, "+")
		if !ok || key == "" {
			held, key = "", name
		}
		modifier, ok := modifiers[held]
		if named, special := keys[key]; special {
			key = named
		}
		if runes := []rune(key); ok && len(runes) == 1 {
			p.key(runes[0], modifier)
		} else {
			p.t.Fatalf("%s: there is no such key", name)
		}
	}
}

// key presses a key and lets it go. The letter that it writes comes with the press, which
// the page may prevent; chromedp's own action writes it whatever the page says.
func (p *Page) key(r rune, held chromedp.Modifier) {
	p.t.Helper()
	events := kb.Encode(r)
	down, up := *events[0], *events[len(events)-1]
	down.Modifiers |= int64(held)
	up.Modifiers |= int64(held)
	down.Type = kb.KeyRawDown
	if len(events) == 3 && held&^chromedp.ModifierShift == 0 {
		down.Type, down.Text, down.UnmodifiedText = kb.KeyDown, events[1].Text, events[1].UnmodifiedText
	}
	call(p, input.DispatchKeyEvent, down)
	call(p, input.DispatchKeyEvent, up)
}

// Type writes a text where the focus is, key by key.
func (p *Page) Type(text string) {
	p.t.Helper()
	for _, r := range text {
		p.key(r, chromedp.ModifierNone)
	}
}

// Focused is what has the focus.
func (p *Page) Focused() What {
	p.t.Helper()
	_, what := p.focused()
	return what
}

func (p *Page) focused() (cdp.BackendNodeID, What) {
	p.t.Helper()
	at := call(p, runtime.Evaluate, runtime.EvaluateParams{Expression: "document.activeElement ?? document.body"})
	no := false
	tree := call(p, accessibility.GetPartialAXTree, accessibility.GetPartialAXTreeParams{ObjectID: at.Result.ObjectID, FetchRelatives: &no})
	if len(tree.Nodes) == 0 {
		return 0, What{}
	}
	n := tree.Nodes[0]
	return n.BackendDOMNodeID, What{said(n.Role), said(n.Name)}
}

// manyTabs is more than a page has to tab through.
const manyTabs = 300

// TabTo presses Tab until a thing has the focus.
func (q Part) TabTo(role, name string) {
	t := q.p.t
	t.Helper()
	q.Wait(role, name)
	var way []string
	for range manyTabs {
		at, what := q.p.focused()
		if (What{role, name}).is(what.Role, what.Name) {
			if id, err := q.find(What{role, name}); err == nil && id == at {
				return
			}
		}
		way = append(way, what.String())
		q.p.Press("Tab")
	}
	t.Fatalf("Tab does not lead to %s; it leads to %.3000s", What{role, name}, strings.Join(way, ", "))
}

// Choose presses Enter on a thing that Tab leads to.
func (q Part) Choose(role, name string) {
	q.p.t.Helper()
	q.TabTo(role, name)
	q.p.Press("Enter")
}

// Write replaces what the field with a label has, which Tab leads to.
func (q Part) Write(role, label, text string) {
	q.p.t.Helper()
	q.TabTo(role, label)
	q.p.Press("Control+a", "Delete")
	q.p.Type(text)
}
