package browse

import (
	"bytes"
	_ "embed" // of axe-core
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
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

// Shot writes a picture of the page as PNG, of at most so many pixels from its top on or, with 0,
// of what the window shows, and of its 256 most frequent colours.
func (p *Page) Shot(file string, most float64) {
	p.t.Helper()
	how := page.CaptureScreenshotParams{}
	if most > 0 {
		size, yes := call(p, page.GetLayoutMetrics, struct{}{}).CSSContentSize, true
		how.CaptureBeyondViewport, how.Clip = &yes, &page.Viewport{Width: size.Width, Height: min(size.Height, most), Scale: 1}
	}
	shot := call(p, page.CaptureScreenshot, how)
	testkit.Must(p.t, os.MkdirAll(filepath.Dir(file), 0o755))
	var small bytes.Buffer
	full := testkit.Value(png.Decode(bytes.NewReader(shot.Data)))(p.t)
	testkit.Must(p.t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, paletted(full)))
	testkit.Must(p.t, os.WriteFile(file, small.Bytes(), 0o644))
}

// paletted is a picture in a third of the bytes: the edges of letters lose some shades.
func paletted(full image.Image) image.Image {
	b, count := full.Bounds(), map[color.Color]int{}
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			count[full.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return count[b] - count[a] })
	out := image.NewPaletted(b, colours[:min(len(colours), 256)])
	index := map[color.Color]uint8{}
	for c := range count {
		index[c] = uint8(out.Palette.Index(c)) // at most 255
	}
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			out.SetColorIndex(x, y, index[full.At(x, y)])
		}
	}
	return out
}

// Usable holds what is on the page against what everybody needs of it, in both themes and on both
// sizes of screen: nothing that axe-core finds, and nothing beside the screen. Seen is called with each look.
func (p *Page) Usable(name string, seen ...func(width int64, scheme string)) {
	p.t.Helper()
	p.Until("all of it to be there", `document.querySelector("h1") && !document.querySelector("[aria-busy]")`)
	for _, width := range []int64{wide, narrow} {
		for _, scheme := range []string{"light", "dark"} {
			p.Size(width, high)
			p.Scheme(scheme)
			var rules []string
			if scheme == "dark" {
				rules = ofColours
			}
			for _, found := range p.Axe(rules...) {
				p.t.Errorf("%s, %d wide, %s: %s", name, width, scheme, found)
			}
			if over := Eval[int64](p, "document.documentElement.scrollWidth"); over > width {
				p.t.Errorf("%s is %d wide on a screen of %d; %s", name, over, width, Eval[string](p, beside))
			}
			for _, f := range seen {
				f(width, scheme)
			}
		}
	}
	p.Size(wide, high)
	p.Scheme("light")
}

// Sizes of a window, in CSS pixels.
const wide, narrow, high = 1440, 360, 900

// beside is what reaches over the edge of the screen.
const beside = `[...document.querySelectorAll("*")].filter((e) => e.getBoundingClientRect().right > innerWidth && !e.closest(".scroll")).map((e) => e.outerHTML.slice(0, 90)).join(" | ")`

// ofColours are the rules of axe-core that look at colours: a theme changes what they find, and nothing else.
var ofColours = []string{"color-contrast", "link-in-text-block"}

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
