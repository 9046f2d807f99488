package browse

import (
	_ "embed" // of axe-core
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/systeminfo"
	"github.com/chromedp/chromedp"

	"github.com/steadyfleet/steady/internal/testkit"
)

// Size sets the size of the window, in CSS pixels.
func (p *Page) Size(width, height int64) {
	p.t.Helper()
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1})
}

// Scheme sets which colours the system prefers, light or dark. Motion is reduced.
func (p *Page) Scheme(name string) {
	p.t.Helper()
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
}

// Shot writes a picture of the whole page as PNG.
func (p *Page) Shot(file string) {
	p.t.Helper()
	size := call(p, page.GetLayoutMetrics, struct{}{}).CSSContentSize
	yes := true
	shot := call(p, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: &yes,
		Clip: &page.Viewport{Width: size.Width, Height: size.Height, Scale: 1}})
	testkit.Must(p.t, os.MkdirAll(filepath.Dir(file), 0o755))
	testkit.Must(p.t, os.WriteFile(file, shot.Data, 0o644))
}

//go:embed testdata/axe.min.js
var axe string

// Axe lists what axe-core finds against the page as it is now, by all of its rules
// or by some.
func (p *Page) Axe(rules ...string) []string {
	p.t.Helper()
	if !Eval[bool](p, "Boolean(window.axe)") {
		if err := chromedp.Do(p.ctx, chromedp.Evaluate[chromedp.Void](axe)); err != nil {
			p.t.Fatalf("axe-core: %v", err)
		}
	}
	only := ""
	if len(rules) > 0 {
		only = fmt.Sprintf(`runOnly: {type: "rule", values: %s},`, `["`+strings.Join(rules, `","`)+`"]`)
	}
	return Eval[[]string](p, `axe.run(document, {`+only+` resultTypes: ["violations"]}).then((r) => r.violations.flatMap((v) =>
		v.nodes.map((n) => v.id + " (" + v.help + "): " + n.target.join(" ") + " " + n.html.slice(0, 200) + " " + (n.failureSummary ?? "").replaceAll("\n", " "))))`)
}

// Metrics is what a page costs.
type Metrics struct {
	Heap     int64         // bytes of JavaScript in use after a collection
	Nodes    int64         // of documents
	Busy     time.Duration // of the main thread of the page so far
	CPU      time.Duration // of all processes of the browser so far
	Requests int
	Bytes    int64 // that came over the network
}

// Metrics measures the page.
func (p *Page) Metrics() Metrics {
	p.t.Helper()
	call(p, performance.Enable, performance.EnableParams{})
	busy := call(p, performance.GetMetrics, struct{}{}).Metrics
	processes, err := chromedp.CallBrowser(p.ctx, systeminfo.GetProcessInfo, struct{}{})
	testkit.Must(p.t, err)
	call(p, heapprofiler.CollectGarbage, struct{}{})
	var m Metrics
	for _, c := range processes.ProcessInfo {
		m.CPU += time.Duration(c.CPUTime * float64(time.Second))
	}
	for _, v := range busy {
		if v.Name == "TaskDuration" {
			m.Busy = time.Duration(v.Value * float64(time.Second))
		}
	}
	for _, v := range call(p, performance.GetMetrics, struct{}{}).Metrics {
		switch v.Name {
		case "JSHeapUsedSize":
			m.Heap = int64(v.Value)
		case "Nodes":
			m.Nodes = int64(v.Value)
		}
	}
	for _, r := range p.Requests() {
		m.Requests++
		m.Bytes += r.Bytes
	}
	return m
}
