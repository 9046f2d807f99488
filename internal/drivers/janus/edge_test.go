package janus

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/nodesdk"
)

// do applies a change of a mountpoint as it is.
func do(t *testing.T, d *Driver, id, config string) error {
	t.Helper()
	op := nodesdk.Op{Kind: "flow", ID: id, Config: json.RawMessage(config), Delete: config == ""}
	if it, there, err := d.Read(t.Context(), "flow", id); err != nil {
		t.Fatal(err)
	} else if there {
		op.Was = &it
	}
	return d.Apply(t.Context(), op)
}

func config(t *testing.T, d *Driver, id string) map[string]any {
	t.Helper()
	s, err := d.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range s.Items {
		if it.ID == id {
			var m map[string]any
			if err := json.Unmarshal(it.Config, &m); err != nil {
				t.Fatal(err)
			}
			return m
		}
	}
	return nil
}

func stream(port int, more string) string {
	return fmt.Sprintf(`{"type":"rtp","media":[{"mid":"a","type":"audio","port":%d,"pt":111,"codec":"opus"}]%s}`, port, more)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestFileAndMemoryDiffer: an edit in the file that Janus has not read is shown, and neither
// it nor that of another mountpoint is overwritten by a change of something else.
func TestFileAndMemoryDiffer(t *testing.T) {
	t.Parallel()
	g := start(t)
	d := g.driver()
	p := testkit.Ports(t, "udp", 3)
	must(t, do(t, d, "a", stream(p[0], `,"secret":"s1"`)))
	must(t, do(t, d, "b", stream(p[1], "")))
	must(t, g.editFile("a", json.RawMessage(stream(p[0], `,"secret":"s1","description":"by hand"`))))
	want := map[string]any{"set": map[string]any{"description": "by hand"}}
	if got := config(t, d, "a")[startup]; !reflect.DeepEqual(got, want) {
		t.Errorf("an edit in the file alone shows as %v", got)
	}
	before, err := os.ReadFile(d.file.path)
	must(t, err)
	if err := do(t, d, "b", stream(p[1], `,"description":"B"`)); err == nil || !strings.Contains(err.Error(), "has another a than Janus runs") {
		t.Errorf("a change of another mountpoint would overwrite the edit, and is answered with %v", err)
	}
	if after, err := os.ReadFile(d.file.path); err != nil || string(after) != string(before) {
		t.Error("the edit in the file was overwritten")
	}
	must(t, g.restart())
	if got := config(t, d, "a"); got[startup] != nil || got["description"] != "by hand" {
		t.Errorf("after a restart it is %v", got)
	}
	must(t, do(t, d, "b", stream(p[1], `,"description":"B"`)))

	must(t, g.editFile("c", json.RawMessage(stream(p[2], ""))))
	if got := config(t, d, "c"); got[running] != false {
		t.Errorf("what is in the file alone is %v", got)
	}
	must(t, do(t, d, "c", ""))
	if got := config(t, d, "c"); got != nil {
		t.Errorf("deleted from the file it is %v", got)
	}
}

// TestOneThatCannotLoad: a mountpoint that Janus cannot load at any start is no reason to refuse changes
// of others, also for a driver that began later, and stays in the file. A person's edit beside it is one.
func TestOneThatCannotLoad(t *testing.T) {
	t.Parallel()
	busy, err := net.ListenPacket("udp", ":0")
	must(t, err)
	defer busy.Close()
	p := testkit.Ports(t, "udp", 3)
	reasons := map[string]string{"a file that is missing": "/nonexistent.opus: no such file", "a port that is busy": "a port that is in use", "an unknown type": "type rist"}
	for what, entry := range map[string]string{
		"a file that is missing": "{ type = \"ondemand\", id = 3, filename = \"/nonexistent.opus\", audio = true, video = false, audiopt = 100 }",
		"a port that is busy":    fmt.Sprintf("{ type = \"rtp\", id = 3, media = ( { type = \"video\", mid = \"v\", port = %d, pt = 96, codec = \"vp8\" } ) }", busy.LocalAddr().(*net.UDPAddr).Port),
		"an unknown type":        "{ type = \"rist\", id = 3 }",
	} {
		g := start(t)
		g.Kill()
		g.Write(plugin+".jcfg", testkit.JanusStreaming+fmt.Sprintf("lobby: { type = \"rtp\", id = 1, media = ( { type = \"video\", mid = \"v\", port = %d, pt = 96, codec = \"vp8\" } ) }\njingle: %s\n", p[0], entry))
		g.Restart()
		d := g.driver()
		must(t, do(t, d, "new", stream(p[1], "")))
		must(t, do(t, g.driver(), "new", stream(p[1], `,"description":"by another driver"`)))
		if got := config(t, d, "jingle"); got[running] != false || !strings.Contains(fmt.Sprint(got[cause]), reasons[what]) {
			t.Errorf("%s: it is %v", what, got)
		}
		effect, detail, err := d.Probe(t.Context(), nodesdk.Item{Kind: "flow", ID: "jingle", Config: testkit.Value(json.Marshal(config(t, d, "jingle")))(t)})
		if err != nil || effect != nodesdk.NotInEffect || !strings.Contains(detail, "file of Janus") {
			t.Errorf("%s: its effect is %q, %q, %v", what, effect, detail, err)
		}
		must(t, g.editFile("hand", json.RawMessage(stream(p[2], ""))))
		if err := do(t, g.driver(), "new", stream(p[1], "")); err == nil || !strings.Contains(err.Error(), "hand") {
			t.Errorf("%s: a change that would overwrite an edit is answered with %v", what, err)
		}
		g.Kill()
	}
}

// TestAPIAlone: what a person makes or edits without permanent is lost by a restart, and says so.
func TestAPIAlone(t *testing.T) {
	t.Parallel()
	g := start(t)
	d := g.driver()
	p := testkit.Ports(t, "udp", 2)
	c, err := d.file.read(t.Context())
	must(t, err)
	_, err = g.raw.request(t.Context(), map[string]any{"request": "create", "type": "rtp", "name": "tmp", "id": 5, "secret": "unknown", "is_private": true, "admin_key": c.adminKey,
		"media": []any{map[string]any{"mid": "a", "type": "audio", "port": p[0], "pt": 111, "codec": "opus"}}})
	must(t, err)
	if got := config(t, d, "#5"); got["permanent"] != false || got[withheld] != true {
		t.Errorf("a mountpoint whose secret is not known is %v", got)
	}
	if err := do(t, d, "#5", ""); err == nil {
		t.Error("it is deleted without its secret")
	}
	must(t, do(t, d, "kept", stream(p[1], `,"pin":"1","id":"7"`)))
	_, err = g.raw.request(t.Context(), map[string]any{"request": "edit", "id": 7, "new_pin": "2"})
	must(t, err)
	for deadline := time.Now().Add(time.Minute); config(t, d, "kept")["pin"] != "2" && time.Now().Before(deadline); {
	}
	if got := config(t, d, "kept"); got["pin"] != "2" || !reflect.DeepEqual(got[startup], map[string]any{"set": map[string]any{"pin": "1"}}) {
		t.Errorf("a pin that was changed in memory alone shows as %v", got)
	}
	must(t, do(t, d, "kept", stream(p[1], `,"id":"7"`)))
	if got := config(t, d, "kept"); got["pin"] != nil || got[startup] != nil {
		t.Errorf("a pin that was removed is %v", got)
	}
}

// TestSameName: Janus has several mountpoints of a name. Each is an object, and stays the same one.
func TestSameName(t *testing.T) {
	t.Parallel()
	g := start(t)
	d := g.driver()
	p := testkit.Ports(t, "udp", 4)
	create := func(id, port int, permanent bool) {
		_, err := g.raw.request(t.Context(), map[string]any{"request": "create", "type": "rtp", "name": "cam", "id": id, "permanent": permanent, "admin_key": testkit.JanusAdminKey,
			"media": []any{map[string]any{"mid": "a", "type": "audio", "port": port, "pt": 111, "codec": "opus"}}})
		must(t, err)
	}
	ids := func(want ...string) {
		t.Helper()
		for range 2 {
			s, err := d.Snapshot(t.Context())
			must(t, err)
			var got []string
			for _, it := range s.Items {
				got = append(got, it.ID)
				again, there, err := d.Read(t.Context(), "flow", it.ID)
				if err != nil || !there || string(again.Config) != string(it.Config) {
					t.Errorf("%s is read as %s, and among all as %s: %v", it.ID, again.Config, it.Config, err)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("it has %q", got)
			}
		}
	}
	create(5, p[0], false)
	create(3, p[1], false)
	ids("cam", "cam#5")
	create(9, p[2], true)
	ids("cam", "cam#3", "cam#5")
	if got := config(t, d, "cam")["id"]; got != "9" {
		t.Errorf("the one in the file is %v", got)
	}
	must(t, do(t, d, "cam#5", ""))
	ids("cam", "cam#3")
}

// TestNothingIsAcknowledgedThatIsNotKept: Janus 1.1.2 says that it made these, and made
// something else, or would not have it after a restart.
func TestNothingIsAcknowledgedThatIsNotKept(t *testing.T) {
	t.Parallel()
	g := start(t)
	d := g.driver()
	p := testkit.Ports(t, "udp", 2)
	video := func(more string) string {
		return fmt.Sprintf(`{"type":"rtp","media":[{"mid":"v","type":"video","port":%d,"pt":100,"codec":"vp8"%s}]}`, p[0], more)
	}
	must(t, do(t, d, "a", video("")))
	before, err := d.Snapshot(t.Context())
	must(t, err)
	for what, c := range map[string]struct{ id, config, field string }{
		"a codec":         {"a", strings.Replace(video(""), "vp8", "nope", 1), "media/v/codec"},
		"a key frame":     {"a", video(`,"bufferkf":true`), ""},
		"an unknown type": {"a", `{"type":"rist"}`, "type"},
		"an unknown name": {"a", video(`,"bitrate":5`), "media/v/bitrate"},
		"no number":       {"new", strings.Replace(stream(p[1], ""), "111", `"x"`, 1), ""},
		"a bad name":      {"new camera", stream(p[1], ""), ""},
		"a bad id":        {"new", stream(p[1], `,"id":"x"`), "id"},
		"a mark":          {"a", video("")[:len(video(""))-1] + `,"running":false}`, running},
	} {
		var invalid *nodesdk.InvalidError
		err := do(t, d, c.id, c.config)
		if !errors.As(err, &invalid) || len(invalid.Problems) == 0 || invalid.Problems[0].Field != c.field {
			t.Errorf("%s is answered with %v", what, err)
		}
		if now, err := d.Snapshot(t.Context()); err != nil || !reflect.DeepEqual(now, before) {
			t.Errorf("after %s it has %+v, before %+v: %v", what, now, before, err)
		}
	}
}

// TestBusyPortLeaksNothing: a mountpoint whose second port is busy is refused before Janus is
// asked, which would keep the first one until it ends.
func TestBusyPortLeaksNothing(t *testing.T) {
	t.Parallel()
	g := start(t)
	d := g.driver()
	free := testkit.Ports(t, "udp", 1)[0]
	busy, err := net.ListenPacket("udp", ":0")
	must(t, err)
	defer busy.Close()
	two := fmt.Sprintf(`{"type":"rtp","media":[{"mid":"a","type":"audio","port":%d,"pt":111,"codec":"opus"},{"mid":"b","type":"audio","port":%d,"pt":111,"codec":"opus"}]}`, free, busy.LocalAddr().(*net.UDPAddr).Port)
	var invalid *nodesdk.InvalidError
	if err := do(t, d, "a", two); !errors.As(err, &invalid) || invalid.Code != "port-in-use" || invalid.Problems[0].Field != "media/b/port" {
		t.Errorf("it is answered with %v", err)
	}
	must(t, do(t, d, "a", stream(free, "")))
	if err := do(t, d, "a", two); !errors.As(err, &invalid) || config(t, d, "a")["media"] == nil {
		t.Errorf("a replacement is answered with %v", err)
	}
}

// TestProbe: a mountpoint is in effect when RTP packets arrive, and not because it is new.
func TestProbe(t *testing.T) {
	t.Parallel()
	g := start(t)
	d := g.driver()
	port := testkit.Ports(t, "udp", 1)[0]
	must(t, do(t, d, "a", stream(port, "")))
	it, _, err := d.Read(t.Context(), "flow", "a")
	must(t, err)
	probe := func(d *Driver, want string) {
		t.Helper()
		if effect, detail, err := d.Probe(t.Context(), it); effect != want {
			t.Errorf("it is %q (%s, %v), not %q", effect, detail, err, want)
		}
	}
	probe(d, nodesdk.NotInEffect)
	probe(d, nodesdk.NotInEffect)
	late := g.driver() // one that did not make it
	_, err = late.Snapshot(t.Context())
	must(t, err)
	probe(late, "")
	conn, err := net.Dial("udp", fmt.Sprintf("127.0.0.1:%d", port))
	must(t, err)
	defer conn.Close()
	deadline := time.Now().Add(time.Minute)
	for n := uint16(0); ; n++ {
		packet := make([]byte, 12+20)
		packet[0], packet[1] = 0x80, 111
		binary.BigEndian.PutUint16(packet[2:], n)
		binary.BigEndian.PutUint32(packet[4:], 960*uint32(n))
		binary.BigEndian.PutUint32(packet[8:], 0xfeed)
		_, err := conn.Write(packet)
		must(t, err)
		if effect, _, err := d.Probe(t.Context(), it); err == nil && effect == nodesdk.InEffect {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("RTP packets arrive, and it is not in effect")
		}
	}
	probe(late, nodesdk.InEffect)
	must(t, do(t, d, "a", stream(port, `,"enabled":false`)))
	probe(d, nodesdk.NotInEffect)
}

// TestJudgeSilence: a stream that ended is not in effect.
func TestJudgeSilence(t *testing.T) {
	t.Parallel()
	d, err := New(Config{})
	must(t, err)
	for _, step := range []struct {
		age  int
		want string
	}{{20, ""}, {6000, nodesdk.NotInEffect}} {
		got, _, _ := d.judge("1", false, map[string]any{"media": []any{map[string]any{"mid": "a", "type": "audio", "age_ms": json.Number(fmt.Sprint(step.age))}}})
		if got != step.want {
			t.Errorf("of age %d it is %q", step.age, got)
		}
	}
}

// TestOldForm: the file of Debian's package, with members such as audioport, is read as Janus
// reads it.
func TestOldForm(t *testing.T) {
	t.Parallel()
	g := start(t)
	d := g.driver()
	p := testkit.Ports(t, "udp", 2)
	g.Kill()
	g.Write(plugin+".jcfg", testkit.JanusStreaming+fmt.Sprintf("rtp-sample: {\n type = \"rtp\"\n id = 1\n description = \"Opus/VP8 live stream \" /* two */ \"coming from external source\"\n audio = true\n video = true\n audioport = %d\n audiopt = 111\n audiocodec = \"opus\"\n videoport = %d\n videopt = 100\n videortpmap = \"VP8/90000\"\n secret = \"adminpwd\"\n}\n", p[0], p[1]))
	g.Restart()
	got := config(t, d, "rtp-sample")
	media, _ := got["media"].([]any)
	if got[startup] != nil || got[running] != nil || len(media) != 2 || got["id"] != "1" || got["description"] != "Opus/VP8 live stream coming from external source" {
		t.Errorf("it is %v", got)
	}
	must(t, do(t, d, "rtp-sample", stream(p[0], `,"id":1,"secret":"adminpwd"`)))
	if got := config(t, d, "rtp-sample"); got[startup] != nil || len(got["media"].([]any)) != 1 {
		t.Errorf("replaced it is %v", got)
	}
}

// TestOtherTypes: mountpoints of files, and of a camera that is not there.
func TestOtherTypes(t *testing.T) {
	t.Parallel()
	g := start(t)
	d := g.driver()
	g.Write("a.alaw", "0123456789")
	for _, kind := range []string{"live", "ondemand"} {
		file := fmt.Sprintf(`{"type":%q,"filename":%q}`, kind, g.Dir+"/a.alaw")
		must(t, do(t, d, kind, file))
		must(t, do(t, d, kind, file[:len(file)-1]+`,"description":"D","pin":"p"}`))
		must(t, g.restart())
		if got := config(t, d, kind); got["type"] != kind || got["pin"] != "p" || got[startup] != nil || got["media"] != nil {
			t.Errorf("after a restart it is %v", got)
		}
		must(t, do(t, d, kind, ""))
	}
	if err := do(t, d, "live", `{"type":"live","filename":"/nonexistent.alaw"}`); !errors.As(err, new(*nodesdk.InvalidError)) {
		t.Errorf("a file that is not there is answered with %v", err)
	}
	if err := do(t, d, "camera", `{"type":"rtsp","url":"rtsp://127.0.0.1:9/x","video":true}`); !errors.As(err, new(*nodesdk.InvalidError)) {
		t.Errorf("a camera that does not answer is answered with %v", err)
	}
}

// TestJcfgIsNeverCutUnseen: what was cut anywhere in a mountpoint does not parse.
func TestJcfgIsNeverCutUnseen(t *testing.T) {
	t.Parallel()
	const file = "a: {\n type = \"r\\\"t\\x70\" # c\n n = 0x10; l = (1, [true, 2.5], { x: \"y\" \"z\" })\n}\n"
	got, err := parseJcfg([]byte(file))
	want := map[string]any{"a": map[string]any{"type": "r\"tp", "n": json.Number("16"), "l": []any{json.Number("1"), []any{true, json.Number("2.5")}, map[string]any{"x": "yz"}}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("it is %v, %v", got, err)
	}
	for n := 1; n < strings.LastIndexByte(file, '}'); n++ {
		if got, err := parseJcfg([]byte(file[:n])); err == nil {
			t.Errorf("%q is read as %v", file[:n], got)
		}
	}
}

// FuzzJcfg: what is read is read again from what it is written as.
func FuzzJcfg(f *testing.F) {
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := parseJcfg(raw)
		if err != nil {
			return
		}
		again, err := parseJcfg([]byte(settings(got)))
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("%v is written as %q and read as %v, %v", got, settings(got), again, err)
		}
	})
}

// TestWrittenByJanus: a file is Janus' own as long as its time is that of its head.
func TestWrittenByJanus(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 9, 5, 7, 0, time.Local)
	file := "#\n" + generated + at.Format(time.ANSIC) + "\n#\n\ngeneral :\n{\n};\n"
	for what, c := range map[string]struct {
		text  string
		after time.Duration
		want  bool
	}{
		"as Janus wrote it":       {file, 300 * time.Millisecond, true},
		"edited below its head":   {file + "hand: { type = \"rtp\" }\n", time.Minute, false},
		"older than its head":     {file, -time.Second, false},
		"without a head":          {"general: {}\n", 0, false},
		"with a head by hand":     {"#\n" + generated + "today\n#\n", 0, false},
		"copied with another age": {file, 24 * time.Hour, false},
	} {
		if got := writtenByJanus([]byte(c.text), at.Add(c.after)); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}
