package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/steadyfleet/steady/internal/testkit"
)

// TestCorpus edits files that others wrote, in memory, at every place that can be managed: each
// object is edited without a change, another is added, a field is added, changed and removed, each
// change is taken back, and the object is deleted and comes back. After every edit a parser that is
// not the editor's has to read exactly what was asked, kind by kind, and all else as it was. Every
// run takes a slice of what is in the module cache, the nightly one all of it.
func TestCorpus(t *testing.T) {
	t.Parallel()
	for _, format := range slices.Sorted(maps.Keys(foreignParsers)) {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			files, err := corpusFiles(format)
			testkit.Only(t, err == nil && len(files) > 0, fmt.Sprintf("no files in this format: STEADY_NIGHTLY=1 downloads them, online (%v)", err))
			c := &corpus{t: t, format: format, refused: map[string]int{}, most: shortMost}
			if testkit.Nightly() && format != "yaml" { // whose other parser is another program, and slow
				c.most = nightlyMost
			}
			if c.large = largeFile; format == "yaml" {
				c.large = largeYAML
			}
			for _, m := range slices.Sorted(maps.Keys(files)) {
				t.Run(m, func(t *testing.T) {
					c.t = t
					for _, name := range files[m] {
						c.file(name)
					}
				})
			}
			c.t = t
			c.report()
			if c.edits == 0 {
				t.Error("no edit was tried")
			}
		})
	}
}

// Bounds: of the files of the short run, of the places in a file and of the objects at each.
const (
	shortFiles  = 10
	shortMost   = 3
	nightlyMost = 8
	largeFile   = 64 << 10 // bytes
	largeYAML   = 16 << 10
)

// corpusFiles are the files of the listed modules that are in a format, by the name of the module.
func corpusFiles(format string) (map[string][]string, error) {
	list, err := os.ReadFile(filepath.Join("testdata", "corpus.txt"))
	if err != nil {
		return nil, err
	}
	files, all := map[string][]string{}, 0
	for line := range strings.Lines(string(list)) {
		row := strings.Fields(line)
		if len(row) == 0 || row[0] == "#" {
			continue
		}
		var ends []string
		for _, end := range row[3:] {
			if end, of, _ := strings.Cut(end, "="); of == format {
				ends = append(ends, end)
			}
		}
		if len(ends) == 0 {
			continue
		}
		name := strings.ReplaceAll(strings.TrimPrefix(row[0], "github.com/"), "/", "-")
		dir, err := module(row[0], row[1], row[2])
		if err != nil && testkit.Nightly() {
			return nil, err
		}
		if err == nil {
			files[name] = filesWith(dir, ends)
			all += len(files[name])
		}
	}
	if step := (all + shortFiles - 1) / shortFiles; !testkit.Nightly() && step > 1 {
		for m, list := range files {
			var some []string
			for i := 0; i < len(list); i += step {
				some = append(some, list[i])
			}
			files[m] = some
		}
	}
	return files, nil
}

// filesWith are the files of a folder whose names have one of the ends.
func filesWith(dir string, ends []string) (files []string) {
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(name, end) }) {
			files = append(files, name)
		}
		return nil
	})
	return files
}

// module is the folder of a module in the cache, whose sum is compared. It is downloaded at night only.
func module(name, version, sum string) (string, error) {
	cmd := exec.Command("go", "mod", "download", "-json", name+"@"+version)
	cmd.Dir = os.TempDir() // outside of this module, whose requirements are others
	cmd.Env = append(os.Environ(), "GOFLAGS=")
	if !testkit.Nightly() {
		cmd.Env = append(cmd.Env, "GOPROXY=off")
	}
	out, err := cmd.Output()
	var m struct{ Dir, Sum, Error string }
	if decoded := json.Unmarshal(out, &m); decoded != nil || m.Error != "" || m.Dir == "" {
		return "", fmt.Errorf("%s@%s: %w", name, version, errors.Join(err, decoded, errors.New(m.Error)))
	}
	if m.Sum != sum {
		return "", fmt.Errorf("%s@%s has the sum %s, and testdata/corpus.txt has %s", name, version, m.Sum, sum)
	}
	return m.Dir, nil
}

// corpus counts what a run did.
type corpus struct {
	t                              *testing.T
	format                         string
	name                           string // of the file
	most                           int    // places in a file, and objects at each
	large                          int    // bytes of a file that is left out
	raw                            []byte
	random                         *rand.Rand
	files, unread, places, objects int
	edits, noops                   int
	refused                        map[string]int // by reason
	lines                          []int          // that an edit changed
	differences, foreign           int
}

// place is where objects stand in a file.
type place struct {
	at       []string
	identity string
	ids      []string
}

func (c *corpus) file(name string) {
	raw, err := os.ReadFile(name)
	if err != nil || len(raw) > c.large || len(bytes.TrimSpace(raw)) == 0 {
		return
	}
	c.files++
	c.name, c.raw = name, raw
	h := fnv.New64a()
	h.Write(raw)
	c.random = rand.New(rand.NewPCG(h.Sum64(), 1))
	d := &Driver{o: Config{Format: c.format}, format: formatNamed(c.format)}
	doc, err := d.format.parse(raw)
	if err != nil {
		c.unread++
		c.refused["read: "+shape(err)]++
		return
	}
	if _, err := foreignParsers[c.format](raw); err != nil {
		c.foreign++
		return // a file that only one of two parsers takes is no file of the format
	}
	all := places(nil, doc)
	c.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, p := range all[:min(c.most, len(all))] {
		c.places++
		d.at, d.o.Identity, d.o.At = p.at, p.identity, strings.Join(p.at, "/")
		c.place(d, p)
	}
}

// identities are members that name an element of a list.
var identities = []string{"name", "id", "key", "host", "job_name", "alert", "url"}

// places lists the maps of objects and the lists of objects with an identity.
func places(at []string, v any) (list []place) {
	switch v := v.(type) {
	case map[string]any:
		p := place{at: at}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if m, is := v[k].(map[string]any); is && !typedValue(m) {
				p.ids = append(p.ids, k)
			}
			list = append(list, places(append(slices.Clip(at), k), v[k])...)
		}
		if len(p.ids) > 0 && len(p.ids) == len(v) {
			list = append(list, p)
		}
	case []any:
		for _, identity := range identities {
			p := place{at: at, identity: identity}
			for _, e := range v {
				m, _ := e.(map[string]any)
				if id, is := m[identity].(string); is && !slices.Contains(p.ids, id) {
					p.ids = append(p.ids, id)
				}
			}
			if len(p.ids) > 0 && len(p.ids) == len(v) {
				return append(list, p)
			}
		}
	}
	return list
}

// typedValue reports whether a map stands for a value that JSON has not.
func typedValue(m map[string]any) bool {
	for k := range m {
		return len(m) == 1 && strings.HasPrefix(k, "!")
	}
	return false
}

func (c *corpus) place(d *Driver, p place) {
	start, err := d.parsed(c.name, c.raw)
	if err != nil {
		c.refused["objects: "+shape(err)]++
		return
	}
	added := map[string]any{"text": "a'b\"c\\ é", "number": json.Number("1"), "float": json.Number("1.5"), "on": true, "list": []any{"a", json.Number("2")}, "sub": map[string]any{"x": "yes", "y": map[string]any{}}}
	const id = "steady corpus"
	if next := c.edit(d, start, p, id, added, "add an object"); next != nil {
		c.edit(d, next, p, id, nil, "take the object back")
	}
	c.random.Shuffle(len(p.ids), func(i, j int) { p.ids[i], p.ids[j] = p.ids[j], p.ids[i] })
	for _, id := range p.ids[:min(c.most, len(p.ids))] {
		c.objects++
		was, _ := start.objects[id].(map[string]any)
		if was == nil {
			continue
		}
		c.noop(d, start, id, was)
		for _, change := range []struct {
			what string
			by   func(*rand.Rand, map[string]any, string) map[string]any
		}{{"add a field", withField}, {"change a field", withChange}, {"remove a field", withoutField}} {
			to := change.by(c.random, was, p.identity)
			if to == nil {
				continue
			}
			if next := c.edit(d, start, p, id, to, change.what); next != nil {
				c.edit(d, next, p, id, was, change.what+", taken back")
			}
		}
		if next := c.edit(d, start, p, id, nil, "delete"); next != nil {
			c.edit(d, next, p, id, was, "delete, taken back")
		}
	}
}

func (c *corpus) noop(d *Driver, start *content, id string, was map[string]any) {
	c.noops++
	next, err := d.edited(start, id, copied(was).(map[string]any))
	switch {
	case err != nil:
		c.refused["no change: "+shape(err)]++
	case !bytes.Equal(next, start.raw):
		c.differ("%s: an edit of %s at %q without a change:\n%s", c.name, id, d.at, changed(start.raw, next))
	}
}

// edit makes one edit and has it judged; it returns the file after it, nil if it was refused.
func (c *corpus) edit(d *Driver, from *content, p place, id string, to map[string]any, what string) *content {
	c.edits++
	asked, _ := copied(to).(map[string]any)
	if p.identity != "" && to != nil {
		asked[p.identity] = id
	}
	raw, err := d.edited(from, id, asked)
	if err != nil {
		if c.refused[what+": "+shape(err)]++; c.refused[what+": "+shape(err)] <= 2 {
			c.t.Logf("%s: %s of %s at %q: %v", c.name, what, id, d.at, err)
		}
		return nil
	}
	c.lines = append(c.lines, linesChanged(from.raw, raw))
	next, err := d.parsed(c.name, raw)
	if err != nil {
		if to != nil || len(from.objects) > 1 {
			c.differ("%s: %s of %s at %q cannot be read again: %v", c.name, what, id, d.at, err)
		}
		return nil
	}
	before, err := foreignParsers[c.format](from.raw)
	after, err2 := foreignParsers[c.format](raw)
	if err := errors.Join(err, err2); err != nil {
		c.differ("%s: %s of %s at %q: %v\n%s", c.name, what, id, d.at, err, changed(from.raw, raw))
		return nil
	}
	if asked != nil {
		asked = copied(asked).(map[string]any)
	}
	want := spelled(replacedAt(copied(before), p, id, asked))
	if diff := cmp.Diff(want, spelled(after)); diff != "" {
		c.differ("%s: %s of %s at %q: another value (-want +got):\n%s%s", c.name, what, id, d.at, diff, changed(from.raw, raw))
		return nil
	}
	return next
}

func (c *corpus) differ(format string, args ...any) {
	if c.differences++; c.differences <= 10 {
		c.t.Errorf(format, args...)
	}
}

var varying = regexp.MustCompile("\"[^\"]*\"|`[^`]*`|/[^ :]+|[0-9]+")

// shape is an error without what varies from file to file.
func shape(err error) string {
	words, _, _ := strings.Cut(varying.ReplaceAllString(err.Error(), "…"), "\n")
	return words
}

// changed are the lines that differ.
func changed(a, b []byte) string {
	x, y := difference(a, b)
	return fmt.Sprintf("-%.2000q\n+%.2000q", strings.Join(x, ""), strings.Join(y, ""))
}

// linesChanged is how many lines stand between the first and the last that differ, on the longer side.
func linesChanged(a, b []byte) int {
	x, y := difference(a, b)
	return max(len(x), len(y))
}

// difference are the lines between the first and the last that differ.
func difference(a, b []byte) (x, y []string) {
	x, y = strings.SplitAfter(string(a), "\n"), strings.SplitAfter(string(b), "\n")
	for len(x) > 0 && len(y) > 0 && x[0] == y[0] {
		x, y = x[1:], y[1:]
	}
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	return x, y
}

func (c *corpus) report() {
	slices.Sort(c.lines)
	at := func(share int) int {
		if len(c.lines) == 0 {
			return 0
		}
		return c.lines[min(len(c.lines)-1, len(c.lines)*share/100)]
	}
	c.t.Logf("| %s | %d files (%d not read, %d by one parser only) | %d places | %d objects | %d edits | %d without a change | %d differences | lines changed: median %d, p95 %d |",
		c.format, c.files, c.unread, c.foreign, c.places, c.objects, c.edits, c.noops, c.differences, at(50), at(95))
	for _, reason := range slices.Sorted(maps.Keys(c.refused)) {
		c.t.Logf("%5d refused: %s", c.refused[reason], reason)
	}
}
