package testkit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// What a Janus of a test asks of those who use it.
const (
	JanusAdminKey  = "k3y-of-the-admin"
	JanusAPISecret = "of-the-api"
	// JanusStreaming is the file of mountpoints of one that has none.
	JanusStreaming = "general: {\n\tadmin_key = \"" + JanusAdminKey + "\" # of the plugin\n}\n"

	janusPlugin = "janus.plugin.streaming"
)

// Janus is a gateway with a folder and a port of its own.
type Janus struct {
	*Process
	Dir, URL string

	t testing.TB
}

// StartJanus starts one without mountpoints.
func StartJanus(t testing.TB) *Janus {
	t.Helper()
	Needs(t, JanusGateway)
	port := Ports(t, "tcp", 1)[0]
	j := &Janus{t: t, Dir: t.TempDir(), URL: "http://127.0.0.1:" + strconv.Itoa(port) + "/janus"}
	// Folders with the two modules that are needed: others take time, and ports.
	for folder, path := range Value(janusModules())(t) {
		Must(t, os.Mkdir(filepath.Join(j.Dir, folder), 0o755))
		Must(t, os.Symlink(path, filepath.Join(j.Dir, folder, filepath.Base(path))))
	}
	j.Write("janus.jcfg", fmt.Sprintf("general: {\n configs_folder = %q\n plugins_folder = %q\n transports_folder = %q\n events_folder = \"/nonexistent\"\n loggers_folder = \"/nonexistent\"\n debug_level = 3\n api_secret = %q\n}\n",
		j.Dir, filepath.Join(j.Dir, "plugins"), filepath.Join(j.Dir, "transports"), JanusAPISecret))
	j.Write("janus.transport.http.jcfg", fmt.Sprintf("general: {\n json = \"compact\"\n base_path = \"/janus\"\n http = true\n port = %d\n ip = \"127.0.0.1\"\n https = false\n}\nadmin: { admin_http = false }\n", port))
	j.Write(janusPlugin+".jcfg", JanusStreaming)
	j.Restart()
	return j
}

// File is that of its mountpoints.
func (j *Janus) File() string { return filepath.Join(j.Dir, janusPlugin+".jcfg") }

// Write writes a file of its folder.
func (j *Janus) Write(name, text string) {
	j.t.Helper()
	Must(j.t, os.WriteFile(filepath.Join(j.Dir, name), []byte(text), 0o600))
}

// Restart starts it again with what it keeps.
func (j *Janus) Restart() {
	j.t.Helper()
	if j.Process != nil {
		j.Kill()
	}
	j.Process = Start(j.t, exec.Command("janus", "-F", j.Dir))
	Eventually(j.t, "Janus answers", func() bool { _, err := j.Request(map[string]any{"request": "list"}); return err == nil })
}

// Request asks its streaming plugin, in a session of its own.
func (j *Janus) Request(body map[string]any) (map[string]any, error) {
	path := j.URL
	for _, m := range []map[string]any{{"janus": "create"}, {"janus": "attach", "plugin": janusPlugin}} {
		answer, err := j.post(path, m)
		if err != nil {
			return nil, err
		}
		data, _ := answer["data"].(map[string]any)
		path += "/" + fmt.Sprint(data["id"])
	}
	answer, err := j.post(path, map[string]any{"janus": "message", "body": body})
	if err != nil {
		return nil, err
	}
	plugin, _ := answer["plugindata"].(map[string]any)
	data, _ := plugin["data"].(map[string]any)
	if data == nil || data["error"] != nil {
		return nil, fmt.Errorf("%v: %v", body["request"], answer)
	}
	return data, nil
}

func (j *Janus) post(url string, m map[string]any) (answer map[string]any, err error) {
	m["transaction"], m["apisecret"] = "test", JanusAPISecret
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	res, err := http.Post(url, "application/json", bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	in := json.NewDecoder(res.Body)
	in.UseNumber() // numbers of sessions have more digits than a float
	if err := in.Decode(&answer); err != nil {
		return nil, err
	}
	if answer["janus"] == "error" {
		return nil, fmt.Errorf("%s: %v", strings.TrimPrefix(url, j.URL), answer["error"])
	}
	return answer, nil
}
