package sessionfile

import (
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/strictyaml"
)

var morning = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

const shop = `name: lab
timeslot:
  provisionAt: in 5m
  start: 2026-03-01T10:00:00Z
  end: in 2h
calls: [lms.example]
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
	f, problems := Read("lab.yaml", []byte(shop), morning)
	if len(problems) > 0 || f.Name != "lab" {
		t.Fatalf("%+v %v", f, problems)
	}
	n := f.Spec
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
	if ph.Timeout.Std() != 30*time.Minute || *ph.Retries != 2 || string(ph.Call.Body) != `{"points":3}` {
		t.Errorf("%+v", ph)
	}
}

func TestFindingsHaveTheirPlace(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"end: in 2h", "end: in 2 hours", `lab.yaml:5:8: "in 2 hours"` + "\n"},
		{"end: in 2h", "end: tomorrow", `lab.yaml:5:8: "tomorrow" is no time`},
		{"end: in 2h", "end: in 30m", "lab.yaml:5:8: it is not after start, "},
		{"count: 1", "count: none", "lab.yaml:11:19: "},
		{"memory: 8g", "memory: lots", `lab.yaml:11:30: "lots" is not a size`},
		{"image: postgres:17", "imag: postgres:17", "lab.yaml:20:11: "},
		{"{web: {image: nginx:1.27}}", "{web: {imag: nginx:1.27}}", "lab.yaml:24:5: "},
		{"await: graded", "awaits: graded", `lab.yaml:28:5: unknown key "awaits"`},
		{"https://lms.example", "http://127.0.0.1:80", "lab.yaml:27:17: 127.0.0.1: calls to loopback"},
		{"await: graded", "await: steady.phase.retry", "lab.yaml:28:12: events of type steady.phase.retry are of steady itself"},
		{"retries: 2", "retries: 11", "lab.yaml:30:14: there are 11; expected 0 to 10"},
	} {
		_, problems := Read("lab.yaml", []byte(strings.Replace(shop, c.from, c.to, 1)), morning)
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

// FuzzRead: what is read without a finding is a session that a server takes, and a finding is in the file.
func FuzzRead(f *testing.F) {
	f.Add([]byte(shop))
	f.Add([]byte("name: a\ntimeslot: {end: in 1h}\nparts:\n- name: p\n  phases: [{name: f, await: x, timeout: 1m}]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, problems := Read("lab.yaml", data, morning)
		if strictyaml.Fatal(problems) || file.Template != "" {
			return
		}
		if err := session.Validate(file.Name, &file.Spec, morning); err != nil {
			t.Errorf("no finding, and %v", err)
		}
	})
}

// FuzzReadTemplate: what is read without a finding makes a session with the values that its parameters allow.
func FuzzReadTemplate(f *testing.F) {
	f.Add([]byte("name: a\nparameters:\n- {name: n, type: integer, min: 2}\nparts:\n- name: p\n  pods: [{name: w, cpus: \"${param:n}\", compose: {services: {w: {image: \"x:${param:n}\"}}}}]\n"))
	f.Add([]byte("name: a\nparts:\n- name: p\n  phases: [{name: f, await: x, timeout: 1m}]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		name, tpl, problems := ReadTemplate("t.yaml", data, morning)
		if (tpl == nil) != strictyaml.Fatal(problems) {
			t.Fatalf("template %v with %v", tpl, problems)
		}
		if tpl == nil {
			return
		}
		values := map[string]any{}
		for i := range tpl.Parameters {
			values[tpl.Parameters[i].Name] = tpl.Parameters[i].Sample()
		}
		s, err := Instantiate(tpl, name, name, values, morning)
		s.Timeslot = session.Timeslot{ProvisionAt: morning, Start: morning, End: morning.Add(time.Hour), CleanupDeadline: morning.Add(time.Hour)}
		if err == nil {
			err = session.Validate(name, &s, morning)
		}
		if err != nil {
			t.Errorf("no finding, and %v", err)
		}
	})
}

// TestWhatPodsAreGiven: secrets are named by services as those of a host are, a volume is kept for a time, and a route is
// of its pod.
func TestWhatPodsAreGiven(t *testing.T) {
	given := strings.Replace(shop, "    selector: {tags: [gpu]}\n", "    secrets: [password]\n    volumes: [{name: data, keep: 7d}]\n", 1)
	given = strings.Replace(given, "          image: postgres:17\n", `          image: postgres:17
          secrets: [password]
          x-steady: {secrets: {POSTGRES_PASSWORD: password}, route: {host: db.example, port: 5432}}
`, 1)
	given = strings.Replace(given, "      volumes: {data: {}}\n", "      volumes: {data: {}}\n      secrets: {password: {external: true}}\n", 1)
	f, problems := Read("lab.yaml", []byte(given), morning)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	pod := f.Spec.Parts[0].Pods[0]
	specs := map[string]string{}
	for _, w := range pod.Workloads {
		specs[w.ID()] = string(w.Spec)
	}
	for id, want := range map[string]string{
		"workspace/lab-shop-web-db": `"contents":[{"target":"/run/secrets/password","secret":"password"}]`,
		"volume/lab-shop-web-data":  `"keep":604800000`,
		"route/lab-shop-web-db":     `"host":"db.example"`,
	} {
		if !strings.Contains(specs[id], want) {
			t.Errorf("%s is %s, without %s\nof %v", id, specs[id], want, specs)
		}
	}
	if !strings.Contains(specs["workspace/lab-shop-web-db"], `{"name":"POSTGRES_PASSWORD","secret":"password"}`) || len(pod.Secrets) != 1 {
		t.Errorf("%v", specs)
	}
	for change, want := range map[[2]string]string{
		{"keep: 7d", "keep: 31d"}:                                   `lab.yaml:13:34: "31d": expected more than nothing, and at most 30d`,
		{"name: data, keep", "name: date, keep"}:                    `lab.yaml:13:22: the fragment of pod web has no volume "date": expected one of data`,
		{"    secrets: [password]\n    vol", "    vol"}:             `names secret "password": a session has no secrets but its own`,
		{"secrets: [password]\n    vol", "secrets: [pin]\n    vol"}: `no workload of pod web names "pin"`,
		{"keep: 7d", "keep: xd"}:                                    `"xd" is no span of time`,
	} {
		_, problems := Read("lab.yaml", []byte(strings.Replace(given, change[0], change[1], 1)), morning)
		words := ""
		for _, p := range problems {
			words += p.String() + "\n"
		}
		if !strings.Contains(words, want) {
			t.Errorf("%v: want %s\ngot %s", change, want, words)
		}
	}
}
