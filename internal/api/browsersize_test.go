package api_test

import (
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/web/browse"
)

const manyHosts = 10_000

// many declares as many hosts as the page has to bear, in two waves.
func (w *world) many(ref string) string {
	w.t.Helper()
	return w.build(ref, plan{hosts: manyHosts, content: ref, waves: "    waves: [{name: canary, selector: {tags: [canary]}}, {name: rest, selector: {all: true}}]\n"})
}

// drawn sets window.drawn to when the frame after the one with the cells of all hosts begins,
// in milliseconds since the navigation did. Only drawing sets the height of the canvas.
const drawn = `(function look() {
	const there = document.querySelector(".cells canvas")?.style.height;
	requestAnimationFrame(there ? () => { window.drawn ??= performance.now() } : look);
})()`

// rows are the elements of which a page has one for each thing that it lists.
const rows = `document.querySelectorAll("tr, li, [role=row], [role=listitem]").length`

// opened is the page of the fleet, opened for the first time by a link that logs in.
func (w *world) opened(t testing.TB) *browse.Page {
	t.Helper()
	p := browse.Open(t)
	p.Before(drawn)
	p.Go(w.link(w.adminSecret()))
	p.Until("the cells to be drawn", "window.drawn")
	return p
}

// What a page shows is bounded however many hosts there are: elements, requests, and bytes.
func TestBrowserIsBoundedInHosts(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, testkit.Chromium)
	w := newWorld(t)
	testkit.Value(w.push(w.many("r1")))(t)
	p := w.opened(t)
	first := p.Metrics()
	t.Logf("first view: %d requests, %d KiB, heap %d KiB, %d nodes", first.Requests, first.Bytes>>10, first.Heap>>10, first.Nodes)
	if first.Requests > 12 || first.Bytes > 300<<10 || first.Heap > 30<<20 {
		t.Errorf("the first view takes %+v; requests %+v", first, p.Requests())
	}
	for path, text := range map[string]string{"/": "never-enrolled", "/hosts": "of 10000", "/hosts?search=99&sort=-name": "of 280", "/rollouts": "stable@r1", "/rollouts/stable@r1": "canary"} {
		p.Go(w.server.OperatorURL() + path)
		p.WaitText(text)
		if n := browse.Eval[int](p, rows); n > 100 {
			t.Errorf("%s has %d rows", path, n)
		}
	}
}
