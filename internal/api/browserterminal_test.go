package api_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/web/browse"
	"github.com/steadyfleet/steady/internal/wire"
)

// onlookers note what a script in the page would do to the world outside of it.
const onlookers = `window.did = [];
window.open = (url) => { did.push("opened " + url); return null; };
Object.defineProperty(navigator, "clipboard", { value: { writeText: (t) => did.push("copied " + t), readText: () => (did.push("read the clipboard"), Promise.resolve("")) } });
Notification.requestPermission = () => did.push("asked to notify");`

// hostile is what a program prints to get at the page around its terminal, at whoever sits there, and at
// the shell that it runs in.
var hostile = strings.Join([]string{
	strings.Repeat("\u202e\u0301\u200d", 500) + strings.Repeat("w", 200_000), // which scrolls out of sight
	"\x1b[9999999999;9999999999H\x1b[9999999999@\x1b[?25l\r\n",
	evil("text"),
	"\x1b]0;" + evil("title") + "\x07\x1b]2;other\x1b\\",                       // titles
	"\x1b]52;c;cm0gLXJmIC8K\x07\x1b]52;c;?\x07",                                // write and read the clipboard
	"\x1b]8;;javascript:window.ran=1\x07run-me\x1b]8;;\x07",                    // links
	"\x1b]8;;https://evil.example/\x07https://bank.example/\x1b]8;;\x07",       //
	"\x1b]8;;https://evil.example/\" style=\"x\x07quoted\x1b]8;;\x07",          //
	"\x1b]4;1;#fff} body { display: none } .x {\x07\x1b]11;url(/x)\x1b\\",      // colours that are none
	"\x1b]10;rgb:ff/00/00;}*{display:none}\x07",                                //
	"\x1b[38;2;1;2;3mrgb\x1b[48;2;4;5;6;58;2;7;8;9;4:3mwavy\x1b[0m",            // colours that are some
	"\x1b]9;notify\x07\x1b]777;notify;a;b\x07\x1b]1337;File=inline=1:aaaa\x07", // of other terminals
	"\x1b_Ga=T,f=100;aaaa\x1b\\\x1bPq#0;2;0;0;0#0~~\x1b\\\x1b^private\x1b\\",
	"\x1b[c\x1b[>c\x1b[=c\x1b[5n\x1b[6n\x1b[?6n\x1b[?2004$p\x1b[>q\x1b[x",                           // reports of the device
	"\x1bP$q\"p\x1b\\\x1bP$qrm -rf /\r\n\x1b\\\x1bP+q544e\x1b\\\x05",                                // of its settings
	"\x1b]4;1;?\x07\x1b]10;?\x07\x1b]11;?\x07\x1b]12;?\x07\x1b[11t\x1b[14t\x1b[18t\x1b[20t\x1b[21t", // of its colours and its title
	"\x1b[?1049h\x1b[2J\x1b[?1049l\x1b[?2004h",
	"\r\nstill here\r\n",
}, "")

// reports are what a terminal answers by itself: a sequence of fixed letters and numbers, and nothing that
// a shell would run.
var reports = regexp.MustCompile(`^(\x1b\[[?>]?[0-9;]*\$?[cnRyt]|\x1b\][0-9;]+rgb:[0-9a-f/]+\x1b\\|\x1bP[0-9]\$r[0-9;]*"?[a-z]*\x1b\\|\x1bP>\|xterm\.js\([0-9.]+\)\x1b\\)*$`)

// outside is how the page looks around the terminal, and which style sheets it has.
const outside = `JSON.stringify([document.title, document.querySelectorAll("style, link").length,
	[...document.styleSheets].flatMap((s) => [...s.cssRules].map((r) => r.cssText)),
	document.adoptedStyleSheets.length, document.adoptedStyleSheets.flatMap((s) => [...s.cssRules]).filter((r) => !r.cssText.match(/^(\.xterm|\.terminal|@keyframes|@supports)/) && !r.selectorText?.split(", ").every((p) => p.includes("xterm"))).map((r) => r.cssText),
	...["body", "h1", "header", "main"].map((q) => getComputedStyle(document.querySelector(q))).map((s) => [s.display, s.color, s.backgroundColor, s.visibility])])`

// clicked presses and releases the mouse at every place of the terminal that has a text.
const clicked = `(() => {
	const at = document.querySelector(".xterm-screen");
	for (const row of document.querySelectorAll(".xterm-rows > div")) for (const part of row.children) {
		const r = part.getBoundingClientRect(), where = { bubbles: true, clientX: r.x + 2, clientY: r.y + r.height / 2, view: window, detail: 1 };
		for (const type of ["mousemove", "mousedown", "mouseup", "click"]) at.dispatchEvent(new MouseEvent(type, where));
	}
	return true;
})()`

// pasted has a text in the clipboard that would end the bracket around it, in a shell that asked for one.
const pasted = `(() => {
	const clip = new DataTransfer();
	clip.setData("text/plain", "echo \x1b[201~;");
	document.querySelector(".xterm-helper-textarea").dispatchEvent(new ClipboardEvent("paste", { clipboardData: clip, bubbles: true, cancelable: true }));
	return true;
})()`

// What a program prints into the terminal stays in it: nothing of it runs, dresses the page, opens a
// window, or is typed into its shell beside the fixed answers that terminals give.
func TestBrowserTerminalKeepsItsOutputIn(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, testkit.Chromium)
	w := newWorld(t)
	a := settled(w, plan{hosts: 1, content: "one", host: delegating})
	testkit.Value(w.op.SetResource(w.ctx(), a.name, "workspace", "web", resource(`{"image":"app"}`)))(t)
	attack := make(chan struct{})
	var typed, answered strings.Builder
	wait := a.serve(1, func(c *conn) {
		testkit.Must(t, c.out.WriteData(wire.FrameStdout, []byte("$ ")))
		<-attack
		testkit.Must(t, c.out.WriteData(wire.FrameStdout, []byte(hostile)))
		into := &answered
		for !strings.Contains(typed.String(), "\r") {
			f, err := c.in.Next()
			if err != nil {
				t.Error(err)
				return
			}
			if f.Type == wire.FrameStdin && strings.HasPrefix(string(f.Data), "\x1b[200~") {
				into = &typed
			}
			if f.Type == wire.FrameStdin {
				into.Write(f.Data)
			}
		}
		testkit.Must(t, c.out.Exit(wire.Exit{}))
		_, _ = c.in.Next()
	})
	p := w.browser(t, w.adminSecret(), "/")
	p.Before(onlookers)
	p.Go(w.server.OperatorURL() + "/workspaces/" + a.name + "/workspace/web")
	p.Choose("button", "Terminal")
	p.Until("the prompt", `document.querySelector(".xterm-rows")?.innerText.includes("$")`)
	before := browse.Eval[string](p, outside)
	close(attack)
	p.Until("the end of it", `document.querySelector(".xterm-rows").innerText.includes("still here")`)
	if colour := browse.Eval[string](p, `getComputedStyle([...document.querySelectorAll(".xterm-rows span")].find((s) => s.innerText === "rgb")).color`); colour != "rgb(1, 2, 3)" {
		t.Errorf("a text of a colour is %s", colour)
	}
	browse.Eval[bool](p, clicked)
	browse.Eval[bool](p, pasted)
	if after := browse.Eval[string](p, outside); after != before {
		t.Errorf("the page was\n%s\nand is\n%s", before, after)
	}
	if did := browse.Eval[[]string](p, "did"); len(did) > 0 {
		t.Errorf("the page %q", did)
	}
	if n := browse.Eval[int](p, `window.ran || document.querySelectorAll(".terminal a, .terminal img, .terminal script").length`); n > 0 {
		t.Error("a text became a part of the page, or ran")
	}
	p.Wait("textbox", "Terminal input")
	p.Type("exit\r")
	p.WaitText("It ended with code 0.")
	wait()
	if typed.String() != "\x1b[200~echo [201~;\x1b[201~exit\r" {
		t.Errorf("the shell was typed %q", typed.String())
	}
	if got := answered.String(); !reports.MatchString(got) || strings.ContainsAny(got, "\r\n") || got == "" {
		t.Errorf("the shell was answered %q", got)
	}
}

// A log is shown as far as it has come, its last line as well, and a line without an end in pieces.
func TestBrowserShowsUnfinishedLines(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, testkit.Chromium)
	w := newWorld(t)
	a := settled(w, plan{hosts: 1, content: "one", host: delegating})
	testkit.Value(w.op.SetResource(w.ctx(), a.name, "workspace", "web", resource(`{"image":"app"}`)))(t)
	next := make(chan string)
	wait := a.serve(1, func(c *conn) {
		for text := range next {
			testkit.Must(t, c.out.WriteData(wire.FrameStdout, []byte(text)))
		}
		testkit.Must(t, c.out.Exit(wire.Exit{}))
	})
	p := w.browser(t, w.adminSecret(), "/workspaces/"+a.name+"/workspace/web")
	p.Choose("button", "Log")
	shows := func(text, lines string) {
		t.Helper()
		next <- text
		p.Until("the log to have "+lines, `JSON.stringify([...document.querySelectorAll(".output pre div")].map((d) => d.innerText.slice(-20))) === '`+lines+`'`)
	}
	shows("one\nAnswer? \x1b[3", `["one","Answer? "]`)
	shows("1mYes", `["one","Answer? Yes"]`)
	shows("\n10 %\r20 %", `["one","Answer? Yes","20 %"]`)
	next <- "\n" + strings.Repeat("long", 300_000)
	shows("end", `["one","Answer? Yes","20 %"`+strings.Repeat(`,"longlonglonglonglong"`, 1_200_000/8192)+`,"glonglonglonglongend"]`)
	close(next)
	p.WaitText("It ended.")
	wait()
}
