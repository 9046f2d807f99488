// Package browse has tests look at the web UI as people do: in a real Chromium, by the
// roles and names that a screen reader says, with the mouse or with the keyboard alone.
// It is a package without product code, and it alone knows the browser's protocol.
package browse

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/steadyfleet/steady/internal/testkit"
)

// browser is the one of this test process.
var browser struct {
	sync.Mutex
	ctx  context.Context // nil until the first page
	stop []context.CancelFunc
}

// Tests runs the tests of a package and ends the browser after them. It stands for the
// *testing.M in TestMain.
type Tests struct{ M interface{ Run() int } }

// Run returns the exit code.
func (t Tests) Run() int {
	defer func() {
		browser.Lock()
		defer browser.Unlock()
		if browser.ctx != nil {
			_ = chromedp.Cancel(browser.ctx) // its profile goes with it, however it ended
		}
		for _, stop := range slices.Backward(browser.stop) {
			stop()
		}
	}()
	return t.M.Run()
}

// started returns the context of the browser, which is started if need be.
func started() (context.Context, error) {
	browser.Lock()
	defer browser.Unlock()
	if browser.ctx != nil {
		return browser.ctx, nil
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.IgnoreCertErrors, // a server's authority is its own
		chromedp.Flag("font-render-hinting", "none"))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stop := chromedp.NewContext(ctx)
	if err := chromedp.Do(ctx); err != nil {
		stop()
		stopAllocator()
		return nil, err
	}
	browser.ctx, browser.stop = ctx, []context.CancelFunc{stopAllocator, stop}
	return ctx, nil
}

// Page is a window with a profile of its own. Its methods end the test when what they
// are asked for does not come within testkit.Patience.
type Page struct {
	Part
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	said     []string // errors
	expected []string
	requests []*Request
}

// Open opens a window, 1440 by 900 pixels and light, until the test ends. The test
// fails when the page said an error by then that Expect does not name, broke its
// content policy, or opened a dialog of the browser.
func Open(t testing.TB) *Page {
	t.Helper()
	testkit.Needs(t, testkit.Chromium)
	p := &Page{t: t}
	p.Part = Part{p: p}
	ctx, stop := chromedp.NewContext(testkit.Value(started())(t), chromedp.WithNewBrowserContext(), chromedp.WithListener(p.hear))
	p.ctx = ctx
	t.Cleanup(stop)
	testkit.Must(t, chromedp.Do(ctx)) // its own context, not one that ends
	call(p, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	p.Size(wide, high)
	p.Scheme("light")
	t.Cleanup(p.end)
	return p
}

// end fails the test for what went wrong unseen, and for what was expected and did not.
func (p *Page) end() {
	_ = chromedp.Do(p.ctx, chromedp.Evaluate[chromedp.Void]("0")) // what was said before has come then
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, text := range p.said {
		if !p.isExpected(text) {
			p.t.Errorf("the page said: %s", text)
		}
	}
	for _, text := range p.expected {
		if !slices.ContainsFunc(p.said, func(s string) bool { return contains(s, text) }) {
			p.t.Errorf("the page never said %q, but %q", text, p.said)
		}
	}
}

// call runs a command of the protocol, which must succeed.
func call[P, R any](p *Page, cmd cdp.Command[P, R], params P) R {
	p.t.Helper()
	r, err := chromedp.Call(p.ctx, cmd, params)
	if err != nil {
		p.t.Fatalf("%s: %v", cmd.Method, err)
	}
	return r
}

// Go opens an address and waits until the page has loaded.
func (p *Page) Go(url string) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, chromedp.Navigate(url)); err != nil {
		p.t.Fatalf("open %s: %v", url, err)
	}
}

// Before runs a script in every document that the page opens from now on, before its own.
func (p *Page) Before(script string) {
	p.t.Helper()
	call(p, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
}

// Eval is the value of an expression in the page, or of what it promises.
func Eval[T any](p *Page, expression string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}
