package browse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/steadyfleet/steady/internal/testkit"
)

// What is a thing on a page as a screen reader says it. A name that ends in "…" is the
// beginning of one; a row is named by all of its cells.
type What struct{ Role, Name string }

func (w What) String() string { return fmt.Sprintf("%s %q", w.Role, w.Name) }

func (w What) is(role, name string) bool {
	if begin, cut := strings.CutSuffix(w.Name, "…"); cut {
		return role == w.Role && strings.HasPrefix(name, begin)
	}
	return role == w.Role && name == w.Name
}

// Part is a part of a page, or all of it. Each method looks for what it needs anew, and
// waits until it is there: pages render as news come.
type Part struct {
	p      *Page
	within []What
}

// In is the part of this part that has a role and a name, such as a region or a dialog.
func (q Part) In(role, name string) Part {
	return Part{q.p, append(slices.Clone(q.within), What{role, name})}
}

// errMany is of a name that two things have: it is told at once, waiting would not help.
var errMany = errors.New("more than one")

// find is what a person would find now under a role and a name.
func (q Part) find(w What) (cdp.BackendNodeID, error) {
	root, err := chromedp.Call(q.p.ctx, runtime.Evaluate, runtime.EvaluateParams{Expression: "document"})
	if err != nil {
		return 0, err
	}
	in := accessibility.QueryAXTreeParams{ObjectID: root.Result.ObjectID}
	var found cdp.BackendNodeID
	for _, w := range append(slices.Clone(q.within), w) {
		in.Role = w.Role
		tree, err := chromedp.Call(q.p.ctx, accessibility.QueryAXTree, in)
		if err != nil {
			return 0, err
		}
		var others []string
		found = 0
		for _, n := range tree.Nodes {
			name := said(n.Name)
			if w.Role == "row" { // it has no name, but is what its cells say
				text, _ := on[string](q.p, n.BackendDOMNodeID, `function() { return this.innerText }`)
				name = strings.Join(strings.Fields(text), " ")
			}
			switch {
			case n.Ignored: // hidden, or behind a dialog
			case !w.is(w.Role, name):
				others = append(others, name)
			case found != 0:
				return 0, fmt.Errorf("%w %s", errMany, w)
			default:
				found = n.BackendDOMNodeID
			}
		}
		if found == 0 {
			return 0, fmt.Errorf("no %s; there are %q", w, others)
		}
		in = accessibility.QueryAXTreeParams{BackendNodeID: found}
	}
	return found, nil
}

func said(v *accessibility.Value) string {
	var text any
	if v == nil || json.Unmarshal(v.Value, &text) != nil || text == nil {
		return ""
	}
	return strings.Join(strings.Fields(fmt.Sprint(text)), " ")
}

// on is what a function answers about an element, which is its this.
func on[T any](p *Page, id cdp.BackendNodeID, function string) (value T, err error) {
	object, err := chromedp.Call(p.ctx, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: id})
	if err != nil {
		return value, err
	}
	yes := true
	r, err := chromedp.Call(p.ctx, runtime.CallFunctionOn, runtime.CallFunctionOnParams{ObjectID: object.Object.ObjectID, FunctionDeclaration: function, ReturnByValue: &yes})
	if err == nil && r.ExceptionDetails != nil {
		err = errors.New(r.ExceptionDetails.Exception.Description)
	}
	if err != nil {
		return value, err
	}
	return value, json.Unmarshal(r.Result.Value, &value)
}

// nextChange ends when the page has changed, or shortly after: not everything that
// changes is in the document.
const nextChange = `new Promise((done) => {
	const end = () => { seen.disconnect(); clearTimeout(late); done(); };
	const seen = new MutationObserver(end), late = setTimeout(end, 100);
	seen.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
})`

// until tries again after every change of the page until there is no error.
func (q Part) until(what string, try func() error) {
	t := q.p.t
	t.Helper()
	ctx, cancel := context.WithTimeout(q.p.ctx, testkit.Patience)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return
		}
		if errors.Is(err, errMany) || ctx.Err() != nil {
			shown, _ := chromedp.Run(q.p.ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText`))
			t.Fatalf("%s: %v\nthe page said %q and shows:\n%.3000s", what, err, q.p.Errors(), shown)
		}
		// It fails when the page is left meanwhile, and then is tried again.
		_ = chromedp.Do(ctx, chromedp.Evaluate[chromedp.Void](nextChange, chromedp.EvalAwaitPromise))
	}
}

// Wait waits for a thing to be there.
func (q Part) Wait(role, name string) {
	q.p.t.Helper()
	q.until("wait for "+What{role, name}.String(), func() error {
		_, err := q.find(What{role, name})
		return err
	})
}

// WaitGone waits until a thing is not there.
func (q Part) WaitGone(role, name string) {
	q.p.t.Helper()
	q.until("wait for the end of "+What{role, name}.String(), func() error {
		if _, err := q.find(What{role, name}); err == nil {
			return errors.New("it is there")
		}
		return nil
	})
}

// Has reports whether a thing is there now.
func (q Part) Has(role, name string) bool {
	_, err := q.find(What{role, name})
	return err == nil || errors.Is(err, errMany)
}

// Text is what a thing shows.
func (q Part) Text(role, name string) (text string) {
	q.p.t.Helper()
	q.until("read "+What{role, name}.String(), func() error {
		id, err := q.find(What{role, name})
		if err == nil {
			text, err = on[string](q.p, id, `function() { return this.innerText }`)
		}
		return err
	})
	return text
}

// WaitText waits until the part shows a text, whatever space is between its words.
func (q Part) WaitText(text string) {
	q.p.t.Helper()
	q.until(fmt.Sprintf("wait for the text %q", text), func() error {
		shown, err := q.shown()
		if err == nil && !contains(shown, text) {
			err = errors.New("it is not shown")
		}
		return err
	})
}

func (q Part) shown() (string, error) {
	if len(q.within) == 0 {
		return chromedp.Run(q.p.ctx, chromedp.Evaluate[string]("document.body.innerText"))
	}
	id, err := Part{q.p, q.within[:len(q.within)-1]}.find(q.within[len(q.within)-1])
	if err != nil {
		return "", err
	}
	return on[string](q.p, id, `function() { return this.innerText }`)
}

// Until waits until an expression is true in the page.
func (p *Page) Until(what, expression string) {
	p.t.Helper()
	p.until(what, func() error {
		ok, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if err == nil && !ok {
			err = errors.New("not yet")
		}
		return err
	})
}

// WaitSeq waits until the page shows the log up to a record.
func (p *Page) WaitSeq(seq uint64) {
	p.t.Helper()
	p.Until(fmt.Sprintf("wait for record %d", seq), fmt.Sprintf("document.documentElement.dataset.seq >= %d", seq))
}

// clickable scrolls to the middle of an element, and says where that is and what is in its way.
const clickable = `function() {
	this.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
	const r = this.getBoundingClientRect(), x = r.x + r.width / 2, y = r.y + r.height / 2, top = document.elementFromPoint(x, y);
	const free = this.contains(top) || top?.contains(this);
	return { x, y, why: this.disabled ? "is disabled" : free ? "" : "is behind " + (top?.outerHTML.slice(0, 200) ?? "the edge") };
}`

// Click clicks on the middle of a thing, as soon as nothing is in front of it.
func (q Part) Click(role, name string) {
	q.p.t.Helper()
	q.point("click", What{role, name}, func(x, y float64) error { return chromedp.Do(q.p.ctx, chromedp.MouseClickXY(x, y)) })
}

// Hover rests the pointer on the middle of a thing, as soon as nothing is in front of it.
func (q Part) Hover(role, name string) {
	q.p.t.Helper()
	q.point("point at", What{role, name}, func(x, y float64) error {
		_, err := chromedp.Call(q.p.ctx, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: chromedp.MouseMoved, X: x, Y: y})
		return err
	})
}

func (q Part) point(verb string, w What, at func(x, y float64) error) {
	q.p.t.Helper()
	q.until(verb+" "+w.String(), func() error {
		id, err := q.find(w)
		if err != nil {
			return err
		}
		middle, err := on[struct {
			X, Y float64
			Why  string
		}](q.p, id, clickable)
		if err == nil && middle.Why != "" {
			err = errors.New("it " + middle.Why)
		}
		if err != nil {
			return err
		}
		return at(middle.X, middle.Y)
	})
}

// Fill puts a text into the field with a label instead of what was there.
func (q Part) Fill(role, label, text string) {
	q.p.t.Helper()
	q.Click(role, label)
	q.p.Press("Control+a", "Delete")
	q.p.Type(text)
}
