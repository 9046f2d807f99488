package browse

import (
	"bytes"
	"fmt"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/steadyfleet/steady/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(Tests{M: m}) }

const document = `<!doctype html><html lang="en"><title>Trial</title>
<style>:root { color-scheme: light dark } .faint { color: #ccc; background: #fff } .tip { display: none } button:hover + .tip { display: block }</style>
<main><h1>Trial</h1>
<section aria-label="Left"><button>Go</button></section>
<section aria-label="Right"><button>Go</button></section>
<button id="late" hidden>Late</button> <button hidden>Hidden</button> <button id="ask">Ask</button><span class="tip" role="note">It asks first.</span>
<label>Name <input id="name" value="old"></label>
<p id="out" role="status"></p>
<dialog aria-label="Sure"><button id="yes">Yes</button></dialog></main>
<script src="/app.js"></script>`

const script = `const out = document.getElementById("out");
document.querySelectorAll("section button").forEach((b) => b.onclick = () => out.textContent = b.parentElement.getAttribute("aria-label"));
document.getElementById("late").onclick = () => { out.textContent = "late"; document.documentElement.dataset.seq = "12"; };
document.getElementById("ask").onclick = () => document.querySelector("dialog").showModal();
document.getElementById("yes").onclick = () => { out.textContent = "hello\n  " + document.getElementById("name").value; document.querySelector("dialog").close(); };
document.addEventListener("keydown", (e) => { if (e.key === "k" && e.ctrlKey) out.textContent = "palette"; if (e.key === "/") { e.preventDefault(); document.getElementById("name").focus(); } });`

// site serves the page, with more in it and more of a script.
func site(t *testing.T, more, code string) string {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'; style-src 'unsafe-inline'")
		switch r.URL.Path {
		case "/":
			fmt.Fprint(w, document+more)
		case "/app.js":
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, script+code)
		case "/favicon.ico":
			w.WriteHeader(http.StatusNoContent)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestPointer(t *testing.T) {
	p := Open(t)
	p.Go(site(t, "", ""))
	p.In("region", "Right").Click("button", "Go")
	p.WaitText("Right")
	if p.Has("button", "Hidden") || p.Has("button", "Yes") || !p.Has("button", "Go") {
		t.Error("what is hidden was found, or what is there was not")
	}
	p.Fill("textbox", "Name", "Zoë")
	if p.Has("note", "") {
		t.Error("a tip is shown to who points elsewhere")
	}
	p.Hover("button", "Ask")
	p.In("note", "").WaitText("It asks first.")
	p.Click("button", "Ask")
	p.In("dialog", "S…").Click("button", "Yes")
	p.WaitText("hello Zoë")
	p.WaitGone("dialog", "Sure")
	if got := p.Text("status", ""); got != "hello Zoë" {
		t.Errorf("the page says %q", got)
	}
}

// What comes later is waited for: it is no matter how long it takes.
func TestWaits(t *testing.T) {
	p := Open(t)
	p.Go(site(t, "", `setTimeout(() => document.getElementById("late").hidden = false, 150);`))
	p.Click("button", "Late")
	p.WaitSeq(12)
	p.Until("the page to say so", `out.textContent === "late"`)
}

func TestKeyboard(t *testing.T) {
	p := Open(t)
	p.Go(site(t, "", ""))
	p.In("region", "Right").TabTo("button", "Go")
	p.Press("Enter")
	p.WaitText("Right")
	p.Write("textbox", "Name", "you")
	p.Choose("button", "Ask")
	if at := p.Focused(); at != (What{"button", "Yes"}) {
		t.Errorf("the focus is on %s", at)
	}
	p.Press("Space")
	p.WaitText("hello you")
	p.Press("Control+k")
	p.WaitText("palette")
	p.Press("/", "x", "Control+a", "z")
	p.Type("é")
	if name := Eval[string](p, `document.getElementById("name").value`); name != "zé" {
		t.Errorf("the field has %q", name)
	}
}

func TestLook(t *testing.T) {
	p := Open(t)
	p.Go(site(t, "", ""))
	if found := p.Axe(); len(found) > 0 {
		t.Errorf("axe-core finds %q", found)
	}
	Eval[bool](p, `document.querySelector("h1").classList.add("faint") ?? true`)
	for _, found := range [][]string{p.Axe(), p.Axe("color-contrast")} {
		if len(found) != 1 || !strings.Contains(found[0], "color-contrast") {
			t.Errorf("axe-core finds %q in grey on white", found)
		}
	}
	for _, scheme := range []string{"light", "dark"} {
		p.Scheme(scheme)
		if !Eval[bool](p, `matchMedia("(prefers-color-scheme: `+scheme+`)").matches`) {
			t.Errorf("the page is not %s", scheme)
		}
	}
	p.Size(360, 700)
	file := filepath.Join(t.TempDir(), "new", "shot.png")
	p.Shot(file, 200)
	picture := testkit.Value(png.Decode(bytes.NewReader(testkit.Value(os.ReadFile(file))(t))))(t)
	if size := picture.Bounds().Size(); size.X != 360 || size.Y > 200 {
		t.Errorf("the picture has %v pixels", size)
	}
	m := p.Metrics()
	if m.Heap < 10_000 || m.Nodes < 20 || m.CPU <= 0 || m.Busy <= 0 {
		t.Errorf("metrics %+v", m)
	}
	scripts := slices.DeleteFunc(p.Requests(), func(r Request) bool { return r.Type != "Script" })
	if len(scripts) != 1 || scripts[0].Bytes < int64(len(script)) || m.Bytes < scripts[0].Bytes || m.Requests < 2 {
		t.Errorf("scripts %+v of %+v", scripts, m)
	}
}

// failures is a test that remembers why it failed.
type failures struct {
	testing.TB
	texts []string
}

func (f *failures) Errorf(format string, args ...any) {
	f.texts = append(f.texts, fmt.Sprintf(format, args...))
}

// What goes wrong unseen fails the test.
func TestUnseen(t *testing.T) {
	for name, c := range map[string]struct {
		more, code string
		want       string
	}{
		"nothing":    {},
		"console":    {code: `console.error("it", 7, "broke")`, want: "it 7 broke"},
		"exception":  {code: `null.x`, want: "TypeError"},
		"rejection":  {code: `Promise.reject(new Error("unhandled"))`, want: "unhandled"},
		"not found":  {code: `fetch("/none")`, want: "404"},
		"policy":     {more: `<img src="https://127.0.0.2/x.png">`, want: "Content Security Policy"},
		"inline":     {more: `<script>document.title = "ran"</script>`, want: "Content Security Policy"},
		"dialog":     {code: `alert("stop")`, want: `alert "stop"`},
		"attributes": {more: `<img src="/none.png" onerror="document.title = 'ran'">`, want: "Content Security Policy"},
	} {
		t.Run(name, func(t *testing.T) {
			p := Open(t)
			f := &failures{TB: t}
			p.t = f
			p.Go(site(t, c.more, c.code))
			if c.want != "" {
				testkit.Eventually(t, "the page to say "+c.want, func() bool { return strings.Contains(strings.Join(p.Errors(), "\n"), c.want) })
			}
			if title := Eval[string](p, "document.title"); title != "Trial" {
				t.Errorf("the title is %s", title)
			}
			p.end()
			if got := strings.Join(f.texts, "\n"); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("the test says %q", got)
			}
			f.texts = nil
			p.Expect("never")
			p.end()
			if got := strings.Join(f.texts, "\n"); !strings.Contains(got, "never said") {
				t.Errorf("what was expected and never came is not told: %q", got)
			}
			p.mu.Lock()
			p.said, p.expected = nil, nil
			p.mu.Unlock()
		})
	}
}
