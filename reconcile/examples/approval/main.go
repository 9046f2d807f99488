// Command approval publishes a page once somebody approved it. It waits for an event that
// comes over HTTP, is kept before it is acknowledged, and counts once however often it is sent.
//
//	go run ./reconcile/examples/approval
//	curl -i localhost:8088/pages/news -d '{"source":"me","id":"1","type":"approved"}'
//
// Restart it whenever you like: what was acknowledged is not lost.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/sqlite"
)

// page is what is desired of one.
type page struct {
	Text string `json:"text"`
}

// write is the only action; no text removes the page.
type write struct{ Text string }

func (write) ActionName() string { return "write" }

// pages reconciles them; each is a file in dir, and an empty one counts as none.
type pages struct{ dir string }

func (p pages) Observe(_ context.Context, r reconcile.Resource[page]) (string, error) {
	text, err := os.ReadFile(filepath.Join(p.dir, r.Ref.ID+".html"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(text), err
}

// Decide names the events as handled only when their effect is seen: until then each turn has
// them, in this process or the next.
func (p pages) Decide(v reconcile.View[page, string]) reconcile.Decision {
	want, last, answer := v.Resource.Desired.Text, int64(0), reconcile.Event{}
	if v.Resource.Delete {
		want = ""
	}
	for _, e := range v.Events {
		last = e.N
		if e.Type == "approved" || e.Type == "rejected" { // the newest one counts
			answer = e
		}
	}
	switch {
	case v.Observed == want:
		return reconcile.IsConverged(reconcile.Because("as-desired", "")).WithHandled(last)
	case answer.Type == "rejected":
		return reconcile.Fail(reconcile.Because("rejected", "rejected by "+answer.Source))
	case answer.Type == "" && want != "":
		return reconcile.Wait(reconcile.Because("approval", "waiting for an event of type approved"))
	}
	return reconcile.Do(write{want}, reconcile.Because("approved", "what is published is not what was approved"))
}

func (p pages) Act(_ context.Context, r reconcile.Resource[page], a reconcile.Action) error {
	file := filepath.Join(p.dir, r.Ref.ID+".html")
	text := a.(write).Text
	if text != "" {
		return os.WriteFile(file, []byte(text), 0o600)
	}
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// receive hands events of CloudEvents 1.0, as JSON, to the page that the path names. 202 says
// that an event is on disk; the sender tries again on anything of 500 and above.
func receive(c *reconcile.Controller) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /pages/{id}", func(w http.ResponseWriter, r *http.Request) {
		var e reconcile.Event
		body := http.MaxBytesReader(w, r.Body, 2*reconcile.MaxEventData)
		if err := json.NewDecoder(body).Decode(&e); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		err := c.Deliver(r.Context(), reconcile.Ref{Kind: "page", ID: r.PathValue("id")}, e)
		status := http.StatusInternalServerError
		switch {
		case err == nil:
			w.WriteHeader(http.StatusAccepted)
			return
		case errors.Is(err, reconcile.ErrNotFound):
			status = http.StatusNotFound
		case errors.Is(err, reconcile.ErrEventUnnamed):
			status = http.StatusBadRequest
		case errors.Is(err, reconcile.ErrEventTooLarge):
			status = http.StatusRequestEntityTooLarge
		case errors.Is(err, reconcile.ErrInboxFull):
			status = http.StatusServiceUnavailable
		}
		http.Error(w, err.Error(), status)
	})
	return mux
}

// open makes a controller of pages, with rows and pages in dir.
func open(ctx context.Context, dir string) (*reconcile.Controller, *sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "rows.db")+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)")
	if err != nil {
		return nil, nil, err
	}
	store, err := sqlite.Open(ctx, db)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	c := reconcile.New(store)
	return c, db, reconcile.Register(c, "page", pages{dir}, reconcile.Policy{})
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	dir := filepath.Join(os.TempDir(), "reconcile-approval")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		log.Fatal(err)
	}
	c, _, err := open(ctx, dir)
	if err != nil {
		log.Fatal(err)
	}
	news := reconcile.Ref{Kind: "page", ID: "news"}
	if _, err := c.Apply(ctx, reconcile.Upsert(news, page{"<h1>News</h1>\n"}), reconcile.By("main")); err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: "127.0.0.1:8088", Handler: receive(c), ReadHeaderTimeout: time.Second}
	go func() { log.Print(server.ListenAndServe()) }()
	go func() { fmt.Println("published:", c.WaitConverged(ctx, news), dir) }()
	if err := c.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
