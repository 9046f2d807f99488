package simulate

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/forecast"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/replay"
	"github.com/steadyfleet/steady/internal/testkit"
)

// sampled forecasts the sample fleet.
func sampled(t *testing.T, s forecast.Assumptions) *forecast.Report {
	t.Helper()
	dir := t.TempDir()
	testkit.Value(fleetdir.Sample(dir))(t)
	src, problems := fleetdir.Load(dir)
	rel, more := release.Build(src, release.BuildOptions{Ref: "v1", Now: 1_800_000_000_000})
	if rel == nil {
		t.Fatal(problems, more)
	}
	p := testkit.Value(rel.Plans())(t)
	f := replay.Fresh(p, 1_800_000_000_000)
	f.Horizon = clock.Day
	f.Tags["web-1"] = append(f.Tags["web-1"], `<&">`)
	r := testkit.Value(forecast.Run(t.Context(), f, s, 30, 1, nil))(t)
	return r
}

var assumed = forecast.Assumptions{Failure: []forecast.Rate{{Part: 0.1}}, Activation: forecast.Range{Min: 30 * clock.Second, Max: 5 * clock.Minute}}

// TestTableFits keeps the forecast in 100 columns, charts included.
func TestTableFits(t *testing.T) {
	for _, s := range []forecast.Assumptions{assumed, {Offline: []forecast.Rate{{Part: 0.5}}}, {Failure: []forecast.Rate{{Part: 1}}}} {
		var out bytes.Buffer
		a := verbs{command.New(command.Streams{Out: &out, Err: &out, Getenv: func(string) string { return "" }})}
		testkit.Must(t, a.showForecast(sampled(t, s)))
		for _, line := range strings.Split(out.String(), "\n") {
			if n := utf8.RuneCountInString(line); n > 100 && !strings.Contains(line, "cleared by") && !strings.Contains(line, "It does not end") {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
}

// TestPictureIsXML draws forecasts of every kind of end.
func TestPictureIsXML(t *testing.T) {
	r := sampled(t, assumed)
	r.Rollouts[0].Name = `<&">`
	raw := picture(r)
	d := xml.NewDecoder(bytes.NewReader(raw))
	elements := map[string]int{}
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, raw)
		}
		if e, ok := tok.(xml.StartElement); ok {
			elements[e.Name.Local]++
		}
	}
	if waves := 3; elements["rect"] < 1+waves || elements["path"] != 1+len(r.Budgets) {
		t.Errorf("the picture has %v", elements)
	}
	for _, s := range []forecast.Assumptions{{Offline: []forecast.Rate{{Part: 1}}}, {Failure: []forecast.Rate{{Part: 1}}}} {
		if err := xml.Unmarshal(picture(sampled(t, s)), new(struct{})); err != nil {
			t.Error(err)
		}
	}
}

func TestRatesAreRead(t *testing.T) {
	for text, want := range map[string]forecast.Rate{
		"2%": {Part: 0.02}, "0.5": {Part: 0.5}, "web-1=50%": {Host: "web-1", Part: 0.5}, "tag:gpu=1": {Tag: "gpu", Part: 1}, "0": {},
	} {
		if got, err := parseRate(text, false); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	if got, err := parseRate("tag:eu", true); err != nil || got != (forecast.Rate{Tag: "eu", Part: 1}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"", "-1%", "101%", "NaN", "web-1", "web-1=", "Web=1%", "tag:=1%", "1%%"} {
		if r, err := parseRate(text, false); err == nil {
			t.Errorf("%q was taken as %+v", text, r)
		}
	}
	for _, text := range []string{"", "5m..30s", "1m..", "x"} {
		if r, err := parseRange(text); err == nil {
			t.Errorf("%q was taken as %+v", text, r)
		}
	}
}
