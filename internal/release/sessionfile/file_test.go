package apply

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/strictyaml"
	"github.com/steadyfleet/steady/internal/testkit"
)

var morning = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

const shop = `name: lab
timeslot:
  provisionAt: in 5m
  start: 2026-03-01T10:00:00Z
  end: in 2h
parts:
- name: shop
  pods:
  - name: web
    gpus: {count: 1, memory: 8g}
    selector: {tags: [gpu]}
    compose:
      services:
        web:
          image: nginx:1.27
          depends_on: [db]
          deploy: {resources: {limits: {cpus: "0.5", memory: 256m}}}
        db:
          image: postgres:17
          volumes: [data:/var/lib/postgresql/data]
      volumes: {data: {}}
  - name: flow
    compose: {services: {web: {image: nginx:1.27}}}
  phases:
  - name: grade
    call: {url: https://lms.example/grade, body: {points: 3}}
    await: graded
    timeout: 30m
    retries: 2
`

func TestFileOfASession(t *testing.T) {
	name, n, problems := ReadSession("lab.yaml", []byte(shop), morning)
	if len(problems) > 0 || name != "lab" {
		t.Fatalf("%q %v", name, problems)
	}
	want := session.Timeslot{ProvisionAt: morning.Add(5 * time.Minute), Start: morning.Add(time.Hour), End: morning.Add(2 * time.Hour), CleanupDeadline: morning.Add(2*time.Hour + cleanup)}
	if n.Timeslot != want {
		t.Errorf("%+v", n.Timeslot)
	}
	pod := n.Parts[0].Pods[0]
	if pod.Resources.MilliCPU != 500 || pod.Resources.Memory != 256<<20 || pod.GPU.Count != 1 || pod.GPU.Memory != 8<<30 || pod.Selector.Tags[0] != "gpu" {
		t.Errorf("%+v", pod)
	}
	ids := map[string]string{}
	for _, w := range pod.Workloads {
		ids[w.ID()] = string(w.Spec)
	}
	web := ids["workspace/lab-shop-web-web"]
	for _, words := range []string{`"lab-shop-web-nginx-1.27"`, `"lab-shop-web-db"`, `"lab-shop-web-default"`, `"aliases":["web"]`} {
		if !strings.Contains(web, words) {
			t.Errorf("%s is not in %s", words, web)
		}
	}
	if db := ids["workspace/lab-shop-web-db"]; !strings.Contains(db, `"lab-shop-web-data"`) || ids["volume/lab-shop-web-data"] == "" {
		t.Errorf("%v", ids)
	}
	if id := n.Parts[0].Pods[1].Workloads[0].Name; !strings.HasPrefix(id, "lab-shop-flow-") {
		t.Errorf("%s", id)
	}
	ph := n.Parts[0].Phases[0]
	if ph.Timeout != 30*time.Minute || ph.Retries != 2 || string(ph.Job.Body) != `{"points":3}` {
		t.Errorf("%+v", ph)
	}
}

func TestFindingsHaveTheirPlace(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"end: in 2h", "end: in 2 hours", `lab.yaml:5:8: "in 2 hours"` + "\n"},
		{"end: in 2h", "end: tomorrow", `lab.yaml:5:8: "tomorrow" is no time`},
		{"end: in 2h", "end: in 30m", "lab.yaml:5:8: it is not after start"},
		{"count: 1", "count: none", "lab.yaml:10:19: "},
		{"memory: 8g", "memory: lots", `lab.yaml:10:30: "lots" is not a size`},
		{"image: postgres:17", "imag: postgres:17", "lab.yaml:19:11: "},
		{"{web: {image: nginx:1.27}}", "{web: {imag: nginx:1.27}}", "lab.yaml:23:5: "},
		{"await: graded", "awaits: graded", `lab.yaml:27:5: unknown key "awaits"`},
		{"retries: 2", "retries: 11", "lab.yaml:29:14: there are 11; expected 0 to 10"},
	} {
		_, _, problems := ReadSession("lab.yaml", []byte(strings.Replace(shop, c.from, c.to, 1)), morning)
		found := ""
		for _, p := range problems {
			found += p.String() + "\n"
		}
		if !strings.Contains(found, strings.TrimSuffix(c.want, "\"in 2 hours\"\n")) || found == "" {
			t.Errorf("%s: found\n%swant %s", c.to, found, c.want)
		}
	}
}

func TestNoTwoPodsHaveTheSamePrefix(t *testing.T) {
	seen := map[string]bool{}
	for _, names := range [][]string{{"a", "b", "c"}, {"a-b", "c", "d"}, {"a", "b-c", "d"}, {"a", "b", "c-d"}, {strings.Repeat("x", 63), "p", "q"}, {strings.Repeat("x", 63), "p", "r"}} {
		p := prefixOf(names...)
		if seen[p] || len(p) > maxPrefix || !strings.HasSuffix(p, "-") {
			t.Errorf("%v: %s", names, p)
		}
		seen[p] = true
	}
}

// TestCalendarIsReadBack reads the calendar as a program would: lines are unfolded, and texts unescaped.
func TestCalendarIsReadBack(t *testing.T) {
	s := operator.Session{Name: "lab", Owner: `ann, of "R;D" \ ` + strings.Repeat("ä", 60), State: session.Running, Created: morning,
		Timeslot: session.Timeslot{Start: morning, End: morning.Add(time.Hour)}}
	var out bytes.Buffer
	testkit.Must(t, WriteICS(&out, []operator.Session{s, {Name: "next", State: session.Failed}}, morning))
	for line := range strings.Lines(out.String()) {
		if len(line) > 77 || !strings.HasSuffix(line, "\r\n") {
			t.Errorf("line %q", line)
		}
	}
	events, current := []map[string]string{}, map[string]string(nil)
	for line := range strings.Lines(strings.ReplaceAll(out.String(), "\r\n ", "")) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\r\n"), ":")
		switch {
		case key == "BEGIN" && value == "VEVENT":
			current = map[string]string{}
		case key == "END" && value == "VEVENT":
			events = append(events, current)
		case current != nil:
			current[key] = strings.NewReplacer(`\,`, ",", `\;`, ";", `\\`, `\`, `\n`, "\n").Replace(value)
		}
	}
	if len(events) != 2 {
		t.Fatalf("%d events", len(events))
	}
	e := events[0]
	start, err := time.Parse(icsTime, e["DTSTART"])
	if err != nil || !start.Equal(morning) || e["SUMMARY"] != "lab" || !strings.Contains(e["DESCRIPTION"], s.Owner) || e["STATUS"] != "CONFIRMED" || events[1]["STATUS"] != "CANCELLED" {
		t.Errorf("%v %v", events, err)
	}
}

// FuzzReadSession: what is read without a finding is a session that a server takes, and a finding is in the file.
func FuzzReadSession(f *testing.F) {
	f.Add([]byte(shop))
	f.Add([]byte("name: a\ntimeslot: {end: in 1h}\nparts:\n- name: p\n  phases: [{name: f, await: x, timeout: 1m}]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		name, n, problems := ReadSession("lab.yaml", data, morning)
		if strictyaml.Fatal(problems) {
			return
		}
		s := n.Spec()
		if err := session.Validate(name, &s, morning); err != nil {
			t.Errorf("no finding, and %v", err)
		}
	})
}
