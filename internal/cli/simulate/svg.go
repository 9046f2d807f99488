package simulate

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/forecast"
)

// Layout of the picture, in its own units.
const (
	picWidth  = 900
	picLeft   = 210 // where time begins
	picRight  = 30
	rowHeight = 26
	areaTall  = 60
)

// drawing collects an SVG document; nothing in it is fetched from elsewhere.
type drawing struct {
	b   bytes.Buffer
	y   int
	end clock.Duration
}

// picture draws a forecast: a row per wave with a bar from when it opens to when
// it is promoted in half of the runs, lighter up to 95 % and a line to the worst;
// below, the hosts in flight of each budget.
func picture(r *forecast.Report) []byte {
	d := &drawing{end: clock.Second, y: 20}
	for i := range r.Rollouts {
		for _, w := range r.Rollouts[i].Waves {
			d.end = max(d.end, w.Promoted.Worst, w.Opens.Worst)
		}
	}
	d.end = max(d.end, r.InFlight.Width*clock.Duration(len(r.InFlight.Mean)))
	d.text(20, d.y, "title", fmt.Sprintf("%d hosts, %d runs: every rollout converges in %s", r.Hosts, r.Runs, share(r.Finished, r.Runs)))
	d.y += 16
	for i := range r.Rollouts {
		d.rollout(&r.Rollouts[i], r.Runs)
	}
	d.area("all hosts in flight", r.InFlight, r.PeakInFlight, 0)
	for _, b := range r.Budgets {
		d.area(b.Selector, b.Usage, max(b.Max, b.Peak), b.Max)
	}
	d.axis()
	d.legend()
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">
<title>Forecast</title>
<style>.title{font-size:15px;font-weight:bold}.name{font-weight:bold}.faint{fill:#666}.bar{fill:#2a7ab0}.late{fill:#a9cfe8}.worst{stroke:#2a7ab0;stroke-width:1.5}.stop{fill:#b3261e}.use{fill:#7fb069}.cap{stroke:#b3261e;stroke-dasharray:5 3}.grid{stroke:#ddd}</style>
<rect width="100%%" height="100%%" fill="#fff"/>
`, picWidth, d.y+10, picWidth, d.y+10)
	out.Write(d.b.Bytes())
	out.WriteString("</svg>\n")
	return out.Bytes()
}

func (d *drawing) x(at clock.Duration) float64 {
	return picLeft + float64(at)/float64(d.end)*(picWidth-picLeft-picRight)
}

func (d *drawing) text(x, y int, class, words string) {
	var escaped strings.Builder
	_ = xml.EscapeText(&escaped, []byte(words)) // a builder takes everything
	fmt.Fprintf(&d.b, `<text x="%d" y="%d" class="%s">%s</text>`+"\n", x, y, class, escaped.String())
}

func (d *drawing) rollout(r *forecast.Rollout, runs int) {
	d.y += rowHeight
	d.text(20, d.y, "name", fmt.Sprintf("%s: %s", r.Name, strings.Join(fates(r, runs), ", ")))
	d.y += 6
	for i := range r.Waves {
		w := &r.Waves[i]
		d.text(30, d.y+16, "", fmt.Sprintf("%s, %d hosts", cut(w.Name, 18), w.Hosts))
		from, mid, late, worst := d.x(w.Opens.Median), d.x(w.Promoted.Median), d.x(w.Promoted.P95), d.x(w.Promoted.Worst)
		if w.Passed > 0 {
			d.bar("late", mid, late, 10)
			d.bar("bar", from, mid, 14)
			fmt.Fprintf(&d.b, `<line class="worst" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`+"\n", mid, d.y+12, worst, d.y+12)
			fmt.Fprintf(&d.b, `<line class="worst" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`+"\n", worst, d.y+7, worst, d.y+17)
		}
		if w.Stopped > 0 {
			d.text(int(from)+4, d.y+16, "stop", "✕ stops here in "+share(w.Stopped, runs))
		} else if w.Reached == 0 {
			d.text(picLeft, d.y+16, "faint", "never opens")
		}
		d.y += rowHeight
	}
}

func (d *drawing) bar(class string, from, to float64, tall int) {
	fmt.Fprintf(&d.b, `<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d" rx="2"/>`+"\n", class, from, d.y+12-tall/2, max(to-from, 1), tall)
}

// area draws the mean level of a curve; a limit of 0 is none.
func (d *drawing) area(name string, c forecast.Curve, full, limit int) {
	if len(c.Mean) == 0 || full == 0 {
		return
	}
	d.y += 14
	bottom := d.y + areaTall
	height := func(v float64) float64 { return float64(bottom) - v/float64(full)*areaTall }
	d.text(30, d.y+24, "", cut(name, 26))
	words := fmt.Sprintf("up to %d", full)
	if limit > 0 {
		words = fmt.Sprintf("at most %d", limit)
	}
	d.text(30, d.y+42, "faint", words)
	fmt.Fprintf(&d.b, `<path class="use" d="M%.1f %d`, d.x(0), bottom)
	for i, v := range c.Mean {
		fmt.Fprintf(&d.b, " L%.1f %.1f L%.1f %.1f", d.x(c.Width*clock.Duration(i)), height(v), min(d.x(c.Width*clock.Duration(i+1)), picWidth-picRight), height(v))
	}
	fmt.Fprintf(&d.b, ` L%.1f %d Z"/>`+"\n", min(d.x(c.Width*clock.Duration(len(c.Mean))), picWidth-picRight), bottom)
	if limit > 0 {
		fmt.Fprintf(&d.b, `<line class="cap" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`+"\n", picLeft, height(float64(limit)), picWidth-picRight, height(float64(limit)))
	}
	d.y = bottom
}

func (d *drawing) axis() {
	d.y += 20
	for i := range 7 {
		at := d.end * clock.Duration(i) / 6
		fmt.Fprintf(&d.b, `<line class="grid" x1="%.1f" y1="44" x2="%.1f" y2="%d"/>`+"\n", d.x(at), d.x(at), d.y-12)
		d.text(int(d.x(at))-14, d.y, "faint", about(at))
	}
}

func (d *drawing) legend() {
	d.y += 22
	d.text(30, d.y, "faint", "Bar: from when a wave opens to when it is promoted in half of the runs; lighter: in 95 %; line: the worst. Green: mean of all runs.")
}
