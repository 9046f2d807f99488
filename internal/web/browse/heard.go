package browse

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Request is one that the page made.
type Request struct {
	Method string
	URL    string
	Type   string // Document, Script, Stylesheet, Fetch, EventSource, …
	Bytes  int64  // that came over the network, headers included; of a stream, so far

	id network.RequestID
}

// hear takes what the browser tells of the page. It must not ask it anything itself.
func (p *Page) hear(ev any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := ev.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeAssert {
			p.said = append(p.said, wordsOf(e.Args))
		}
	case *runtime.EventExceptionThrown:
		d := e.ExceptionDetails
		text := d.Text
		if d.Exception != nil {
			text += " " + d.Exception.Description
		}
		p.said = append(p.said, text)
	case *log.EventEntryAdded:
		// A browser gives requests up when the addresses of the machine change, as they do beside
		// a container engine: that is no word of the page, which asks again.
		changed := strings.Contains(e.Entry.Text, "net::ERR_NETWORK_CHANGED")
		if !changed && e.Entry.Level == log.EntryLevelError || e.Entry.Source == log.EntrySourceSecurity {
			p.said = append(p.said, e.Entry.Text+" "+e.Entry.URL)
		}
	case *page.EventJavascriptDialogOpening:
		p.said = append(p.said, fmt.Sprintf("a dialog of the browser: %s %q", e.Type, e.Message))
		go func() {
			_, _ = chromedp.Call(p.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: false}) // the page ends with the test
		}()
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, &Request{Method: e.Request.Method, URL: e.Request.URL, Type: string(e.Type), id: e.RequestID})
	case *network.EventDataReceived:
		p.received(e.RequestID, func(r *Request) { r.Bytes += e.EncodedDataLength })
	case *network.EventLoadingFinished:
		p.received(e.RequestID, func(r *Request) { r.Bytes = int64(e.EncodedDataLength) })
	}
}

func (p *Page) received(id network.RequestID, add func(*Request)) {
	if i := slices.IndexFunc(p.requests, func(r *Request) bool { return r.id == id }); i >= 0 {
		add(p.requests[i])
	}
}

// wordsOf is what a call of the console said.
func wordsOf(args []*runtime.RemoteObject) string {
	var words []string
	for _, a := range args {
		var text string
		if json.Unmarshal(a.Value, &text) != nil {
			text = cmp.Or(a.Description, string(a.Value))
		}
		words = append(words, text)
	}
	return strings.Join(words, " ")
}

// Expect names an error that the page has to say until the test ends, by a part of it.
func (p *Page) Expect(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = append(p.expected, text)
}

func (p *Page) isExpected(said string) bool {
	return slices.ContainsFunc(p.expected, func(text string) bool { return contains(said, text) })
}

// Errors lists what the page has said so far.
func (p *Page) Errors() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.said)
}

// Requests lists those that the page has made so far, in order.
func (p *Page) Requests() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Request
	for _, r := range p.requests {
		out = append(out, *r)
	}
	return out
}

// contains compares words, whatever is between them.
func contains(text, part string) bool {
	return strings.Contains(" "+strings.Join(strings.Fields(text), " ")+" ", strings.Join(strings.Fields(part), " "))
}
