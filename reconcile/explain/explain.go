// Package explain shows the resources of a controller, and why each is where it is, over HTTP:
// to browsers, to curl, and as JSON. It reads and changes nothing. It is a package of its own
// because a program that serves no pages should not link them.
package explain

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/steadyfleet/steady/reconcile"
)

//go:embed page.html
var files embed.FS

var page = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"time": timeText, "link": link, "causes": causes, "style": func() template.CSS { return style },
	"filter": func(kind string, phase reconcile.Phase) string { return query("kind", kind, "phase", string(phase)) },
}).ParseFS(files, "page.html"))

// style is the one style sheet; the header allows no other.
const style = `body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:75em;padding:0 1em;color:#1b1f24;background:#fff}
table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;padding:.25em .8em .25em 0;border-bottom:1px solid #d0d7de}
td,dd{overflow-wrap:anywhere}code,pre{font:13px/1.45 ui-monospace,monospace;white-space:pre-wrap}
dl{display:grid;grid-template-columns:9em 1fr;gap:.2em 1em}dd{margin:0}.attention{border-left:4px solid #cf222e;padding-left:1em}`

// List is the overview: what needs a person, and the resources that the filter selects.
type List struct {
	Kind      string          `json:"kind,omitempty"`  // the filter's; empty: all
	Phase     reconcile.Phase `json:"phase,omitempty"` // the filter's; empty: all
	Attention []reconcile.Row `json:"attention"`
	Rows      []reconcile.Row `json:"resources"`
	Counts    []Count         `json:"counts"` // of all, by kind and phase
	Stats     reconcile.Stats `json:"stats"`
	StoreErr  string          `json:"storeError,omitempty"`
}

// Count is how many resources of a kind are in a phase.
type Count struct {
	Kind  string          `json:"kind"`
	Phase reconcile.Phase `json:"phase"`
	N     int             `json:"n"`
}

// Handler serves the list at its root, filtered by the parameters kind and phase, and one
// resource with the parameters of=KIND and id=ID. A browser gets HTML; format=json, or an Accept
// header with application/json, gets JSON; everything else gets text.
//
// What is desired is shown as it is stored, with any secret in it: put the handler behind the
// same authentication as the rest of what an operator may see. Mount it below a prefix with
// http.StripPrefix: its links are relative.
func Handler(c *reconcile.Controller) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("Cache-Control", "no-store")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			head.Set("Allow", "GET, HEAD")
			http.Error(w, "this page only reads", http.StatusMethodNotAllowed)
			return
		}
		var body any
		var err error
		q := r.URL.Query()
		if ref := (reconcile.Ref{Kind: q.Get("of"), ID: q.Get("id")}); ref.IsZero() {
			body, err = list(r, c, q)
		} else {
			body, err = c.Explain(r.Context(), ref)
		}
		switch {
		case errors.Is(err, reconcile.ErrNotFound):
			http.Error(w, err.Error(), http.StatusNotFound)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			write(w, r, body)
		}
	})
}

// list reads the overview.
func list(r *http.Request, c *reconcile.Controller, q url.Values) (List, error) {
	l := List{Kind: q.Get("kind"), Phase: reconcile.Phase(q.Get("phase")), Attention: []reconcile.Row{}, Rows: []reconcile.Row{}, Stats: c.Stats()}
	if err := c.StoreErr(); err != nil {
		l.StoreErr = err.Error()
	}
	all, err := c.List(r.Context(), reconcile.Filter{})
	if err != nil {
		return l, err
	}
	for _, row := range all {
		if row.Alerts() {
			l.Attention = append(l.Attention, row)
		}
		if (l.Kind == "" || l.Kind == row.Ref.Kind) && (l.Phase == "" || l.Phase == row.Phase) {
			l.Rows = append(l.Rows, row)
		}
		i := slices.IndexFunc(l.Counts, func(n Count) bool { return n.Kind == row.Ref.Kind && n.Phase == row.Phase })
		if i < 0 {
			i = len(l.Counts)
			l.Counts = append(l.Counts, Count{Kind: row.Ref.Kind, Phase: row.Phase})
		}
		l.Counts[i].N++
	}
	return l, nil
}

// write answers in the form that was asked for.
func write(w http.ResponseWriter, r *http.Request, body any) {
	var err error
	switch accept := r.Header.Get("Accept"); {
	case r.URL.Query().Get("format") == "json" || strings.Contains(accept, "application/json"):
		w.Header().Set("Content-Type", "application/json")
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		err = e.Encode(body)
	case r.URL.Query().Get("format") != "text" && strings.Contains(accept, "text/html"):
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		switch body := body.(type) {
		case reconcile.Explanation:
			err = page.ExecuteTemplate(w, "resource", &body)
		case List:
			err = page.ExecuteTemplate(w, "list", &body)
		}
	default:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		err = text(w, body)
	}
	if err != nil { // the status is sent: break the connection, so that nobody takes a part for the whole
		panic(http.ErrAbortHandler)
	}
}

// text writes for a terminal, which no name may steer.
func text(w io.Writer, body any) error {
	l, isList := body.(List)
	if !isList {
		_, err := io.WriteString(w, plain(fmt.Sprint(body), "\n"))
		return err
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	if l.StoreErr != "" {
		fmt.Fprintf(t, "STORE: %s\n\n", plain(l.StoreErr, ""))
	}
	for i, row := range append(l.Attention[:len(l.Attention):len(l.Attention)], l.Rows...) {
		if i == len(l.Attention) && i > 0 {
			fmt.Fprintln(t)
		}
		mark := ""
		if i < len(l.Attention) {
			mark = "ATTENTION "
		}
		fmt.Fprintf(t, "%s%s\t%s\t%s\n", mark, plain(row.Ref.String(), ""), row.Phase, plain(row.Reason.String(), ""))
	}
	return t.Flush()
}

// plain replaces control characters and marks of direction, but for what is in keep.
func plain(s, keep string) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf) && !strings.ContainsRune(keep, r) {
			return '\uFFFD'
		}
		return r
	}, s)
}

// millis is the form of times: nothing finer is kept.
const millis = "2006-01-02T15:04:05.000Z07:00"

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(millis)
}

// link leads to the page of one resource.
func link(ref reconcile.Ref) string { return query("of", ref.Kind, "id", ref.ID) }

func query(pairs ...string) string {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return "?" + q.Encode()
}

func causes(cs []reconcile.Cause) string {
	var out []string
	for _, c := range cs {
		out = append(out, c.String())
	}
	return strings.Join(out, ", ")
}
