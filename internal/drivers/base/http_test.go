package base

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

func TestHTTP(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		switch r.URL.EscapedPath() {
		case "/api/a%2Fb":
			_, _ = fmt.Fprintf(w, `{"as":%q,"page":%q}`, user+":"+password, r.URL.Query().Get("page"))
		case "/api/elsewhere":
			http.Redirect(w, r, "/api/a%2Fb", http.StatusFound)
		case "/api/text":
			_, _ = fmt.Fprint(w, "<html>")
		default:
			http.Error(w, strings.Repeat("x", 5000), http.StatusTeapot)
		}
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "password")
	testkit.Must(t, os.WriteFile(file, []byte("s3cret\n"), 0o600))
	c := testkit.Value(NewHTTP(Options{URL: server.URL + "/api/", User: "u", PasswordFile: file}))(t)
	var out struct{ As, Page string }
	if err := c.Get(t.Context(), []string{"a/b"}, url.Values{"page": {"2"}}, &out); err != nil || out.As != "u:s3cret" || out.Page != "2" {
		t.Errorf("it is %+v, %v", out, err)
	}
	for path, status := range map[string]int{"elsewhere": http.StatusFound, "text": 0, "other": http.StatusTeapot} {
		err := c.Do(t.Context(), "GET", []string{path}, nil, &out)
		if err == nil || Status(err) != status || len(err.Error()) > maxRefusal+100 || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s ends with %v", path, err)
		}
	}
	for _, o := range []Options{{}, {URL: "ftp://h"}, {URL: "http://u:p@h"}, {URL: "http://h?x"}, {URL: "http://h", User: "u"}, {URL: "http://h", User: "u", PasswordFile: file + "x"}} {
		if _, err := NewHTTP(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
