package api_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/api/operations"
	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/access"
	"github.com/steadyfleet/steady/internal/core/clock"
	coreplan "github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/testkit"
)

const (
	loginsPath = operator.Prefix + "/logins"
	linksPath  = operator.Prefix + "/login-links"
	mePath     = operator.Prefix + "/me"
)

// adminSecret is that of the first token.
func (w *world) adminSecret() string {
	w.t.Helper()
	return strings.TrimSpace(string(testkit.Value(os.ReadFile(w.server.AdminTokenFile()))(w.t)))
}

// tokenOf makes a token.
func (w *world) tokenOf(role operator.Role, life clock.Duration) operator.MadeToken {
	w.t.Helper()
	return testkit.Value(w.op.CreateToken(w.ctx(), operator.NewToken{Name: "tester", Role: role, Life: life}))(w.t)
}

// login logs in and returns its cookie as it is sent.
func (w *world) login(body string) string {
	w.t.Helper()
	res, text := w.answer("", "POST", loginsPath, body)
	if res.StatusCode != http.StatusNoContent || len(res.Cookies()) != 1 {
		w.t.Fatalf("the login was answered %d %s, with %d cookies", res.StatusCode, text, len(res.Cookies()))
	}
	return operator.LoginCookie + "=" + res.Cookies()[0].Value
}

func byToken(secret string) string { return `{"token":"` + secret + `"}` }

// code is one that logs in, of a token's link.
func (w *world) code(secret string) string {
	w.t.Helper()
	link := testkit.Value(w.client(secret).UILink(w.ctx()))(w.t)
	_, code, _ := strings.Cut(link.URL, "/login#")
	return `{"code":"` + code + `"}`
}

// me asks with a cookie who it is.
func (w *world) me(cookie string, headers ...string) (int, operator.Me) {
	w.t.Helper()
	status, raw := w.request("", "GET", mePath, "", append([]string{"Cookie", cookie}, headers...)...)
	var m operator.Me
	if status == http.StatusOK {
		testkit.Must(w.t, json.Unmarshal([]byte(raw), &m))
	}
	return status, m
}

// A browser logs in by token and by link, is who it is, survives a restart of the server, and
// logs out; the log has no secret.
func TestLogInAndOut(t *testing.T) {
	w := newWorld(t)
	ann := w.tokenOf(operator.Operator, clock.Day)
	res, _ := w.answer("", "POST", loginsPath, byToken(ann.Secret))
	c := res.Cookies()[0]
	if !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.Name != "__Host-steady" {
		t.Errorf("the cookie is %s", c)
	}
	if life := time.Until(c.Expires); life > access.LoginLife.Std() || life < access.LoginLife.Std()-time.Hour {
		t.Errorf("the cookie lives %s", life)
	}
	first, second := operator.LoginCookie+"="+c.Value, w.login(w.code(ann.Secret))
	status, m := w.me(first)
	if status != 200 || m.Name != "tester" || m.Role != operator.Operator || !m.Login || m.Expires == 0 {
		t.Errorf("%d %+v", status, m)
	}
	if slices.Contains(m.Allowed, "create-token") || slices.Contains(m.Allowed, "create-login-link") || !slices.Contains(m.Allowed, "operate-rollout") || !slices.Contains(m.Allowed, "me") {
		t.Errorf("allowed: %v", m.Allowed)
	}
	if byBearer := testkit.Value(w.client(ann.Secret).Me(w.ctx()))(t); byBearer.Login || !slices.Contains(byBearer.Allowed, "create-login-link") {
		t.Errorf("the token itself: %+v", byBearer)
	}
	w.halt()
	w.start()
	for _, cookie := range []string{first, second} {
		if status, _ := w.me(cookie); status != 200 {
			t.Errorf("after a restart: %d", status)
		}
	}
	out, _ := w.answer("", "DELETE", loginsPath, "", "Cookie", first)
	if out.StatusCode != 204 || len(out.Cookies()) != 1 || out.Cookies()[0].MaxAge >= 0 || !out.Cookies()[0].Secure {
		t.Errorf("logged out: %d %v", out.StatusCode, out.Cookies())
	}
	if status, _ := w.me(first); status != 401 {
		t.Errorf("the cookie after logging out: %d", status)
	}
	if status, _ := w.me(second); status != 200 {
		t.Errorf("the other login after that: %d", status)
	}
	if status, _ := w.request(ann.Secret, "DELETE", loginsPath, ""); status != 409 {
		t.Errorf("a token logged out: %d", status)
	}
	w.secretsStayOut(ann.Secret, c.Value, strings.TrimPrefix(second, operator.LoginCookie+"="))
}

func (w *world) secretsStayOut(secrets ...string) {
	w.t.Helper()
	for _, e := range testkit.Value(w.op.Events(w.ctx(), operatorAll))(w.t).Events {
		for _, s := range secrets {
			if strings.Contains(string(e.Body), s) {
				w.t.Errorf("event %d (%s) holds a secret", e.Seq, e.Type)
			}
		}
	}
}

// A stolen cookie is worth nothing once its token was revoked, once its time is over, or when
// its token's is.
func TestCookiesEnd(t *testing.T) {
	var ahead atomic.Int64
	w := newWorld(t, func(o *api.Options) {
		o.Control.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	revoked, long, short := w.tokenOf(operator.Viewer, 0), w.tokenOf(operator.Viewer, 0), w.tokenOf(operator.Viewer, clock.Hour)
	cookies := map[string]string{"revoked": w.login(byToken(revoked.Secret)), "long": w.login(byToken(long.Secret)), "short": w.login(w.code(short.Secret))}
	late := w.code(long.Secret)
	expect := func(when string, good ...string) {
		t.Helper()
		for name, cookie := range cookies {
			status, _ := w.me(cookie)
			if want := map[bool]int{true: 200, false: 401}[slices.Contains(good, name)]; status != want {
				t.Errorf("%s: the cookie of %s is answered %d", when, name, status)
			}
		}
	}
	expect("at once", "revoked", "long", "short")
	testkit.Must(t, w.op.RevokeToken(w.ctx(), revoked.ID, false))
	expect("after a revocation", "long", "short")
	ahead.Store(int64(2 * time.Hour))
	expect("when one token has ended", "long")
	if status, _ := w.request("", "POST", loginsPath, late); status != 401 {
		t.Errorf("a code of two hours ago: %d", status)
	}
	ahead.Store(int64(access.LoginLife.Std() + time.Minute))
	expect("after the life of a login")
	if status, _ := w.request("", "POST", loginsPath, byToken(short.Secret)); status != 401 {
		t.Errorf("a login with a token that has ended: %d", status)
	}
	if status, _ := w.request("", "POST", loginsPath, byToken(revoked.Secret)); status != 401 {
		t.Errorf("a login with a token that was revoked: %d", status)
	}
}

// What a stolen cookie has open ends as well, within the time in which streams ask again.
func TestStreamOfAStolenCookieEnds(t *testing.T) {
	w := newKeys(t)
	synctest.Test(t, func(t *testing.T) {
		listener := newPipes()
		ctx, stop := context.WithCancel(t.Context())
		server := testkit.Value(api.Start(ctx, api.Options{DataDir: w.dir + "/server", Root: w.root, Listen: "127.0.0.1:8443",
			Bind: func(string, string) (net.Listener, error) { return listener, nil }}))(t)
		defer func() {
			stop()
			testkit.Must(t, server.Wait())
		}()
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(server.ServerCA())
		tr := &http.Transport{DialContext: listener.dial, TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
		defer tr.CloseIdleConnections()
		send := func(method, path, body string, headers ...string) *http.Response {
			r := testkit.Value(http.NewRequest(method, "https://localhost"+path, strings.NewReader(body)))(t)
			r.Header.Set("Content-Type", "application/json")
			for i := 0; i+1 < len(headers); i += 2 {
				r.Header.Set(headers[i], headers[i+1])
			}
			return testkit.Value((&http.Client{Transport: tr}).Do(r))(t)
		}
		secret := strings.TrimSpace(string(testkit.Value(os.ReadFile(server.AdminTokenFile()))(t)))
		opened := send("POST", loginsPath, byToken(secret))
		testkit.Must(t, opened.Body.Close())
		stream := send("GET", operator.RouteStream+"?tail=true", "", "Cookie", operator.LoginCookie+"="+opened.Cookies()[0].Value)
		ended, began := make(chan error, 1), time.Now()
		go func() {
			_, err := io.Copy(io.Discard, stream.Body)
			ended <- errors.Join(err, stream.Body.Close())
		}()
		select {
		case err := <-ended:
			t.Fatalf("the stream of a good cookie ended after %s: %v", time.Since(began), err)
		case <-time.After(time.Hour): // of the bubble's clock
		}
		var id string
		testkit.Must(t, server.Control().View(ctx, func(s *coreplan.State) {
			for other, token := range s.Operators {
				if token.Parent != "" {
					id = other
				}
			}
		}))
		revoked := send("POST", operator.Prefix+"/tokens/"+id+"/revoke", "{}", "Authorization", "Bearer "+secret)
		testkit.Must(t, revoked.Body.Close())
		began = time.Now()
		select {
		case <-ended:
		case <-time.After(time.Hour):
		}
		if revoked.StatusCode != 204 || time.Since(began) > 15*time.Second {
			t.Errorf("revoked (%d), the stream went on for %s", revoked.StatusCode, time.Since(began))
		}
	})
}

// A login does what its role may by every route, and no more: no route takes a cookie for
// what it refuses to the token, nor lets a login make another.
func TestLoginRoleMatrix(t *testing.T) {
	w := newWorld(t)
	routes := operations.New(w.server.Control(), nil, nil).Routes()
	for _, role := range []operator.Role{operator.Viewer, operator.Operator, operator.Releaser, operator.Admin} {
		made := w.tokenOf(role, 0)
		_, m := w.me(w.login(byToken(made.Secret)))
		for _, r := range routes {
			cookie := w.login(w.code(w.tokenOf(role, 0).Secret)) // one of the routes ends it
			status, body := w.request("", r.Method, routePath.Replace(r.Path), "{}", "Cookie", cookie)
			may := r.Permission.Local || r.Permission.Admits(role) && !r.Permission.Lasting
			if admitted := status != 401 && status != 403; admitted != may {
				t.Errorf("%s %s with a login of a %s: %d %s", r.Method, r.Path, role, status, body)
			}
			if allowed := slices.Contains(m.Allowed, r.ID); allowed != (r.Permission.Admits(role) && !r.Permission.Lasting) {
				t.Errorf("%s says that it may %s: %t", role, r.ID, allowed)
			}
		}
	}
}

// Requests that the page of another origin has a browser send are refused, with a good cookie as
// well; those of this one and of no page are not.
func TestOtherOriginsAreRefused(t *testing.T) {
	w := newWorld(t)
	secret := w.adminSecret()
	cookie := w.login(byToken(secret))
	own, evil := w.server.OperatorURL(), "https://evil.example"
	port := own[:strings.LastIndex(own, ":")] + ":1" // of the same site
	for _, c := range []struct {
		name    string
		headers []string
		get     int // 0: 200
		post    int // 0: 204
	}{
		{"no page", nil, 0, 0},
		{"this page", []string{"Origin", own, "Sec-Fetch-Site", "same-origin"}, 0, 0},
		{"this page, no Origin", []string{"Sec-Fetch-Site", "same-origin"}, 0, 0},
		{"typed", []string{"Sec-Fetch-Site", "none"}, 0, 0},
		{"another site", []string{"Origin", evil, "Sec-Fetch-Site", "cross-site"}, 403, 403},
		{"another site, old browser", []string{"Origin", evil}, 403, 403},
		{"another site, no Origin", []string{"Sec-Fetch-Site", "cross-site"}, 403, 403},
		{"another port", []string{"Origin", port, "Sec-Fetch-Site", "same-site"}, 403, 403},
		{"another port, old browser", []string{"Origin", port}, 403, 403},
		{"another port, no Origin", []string{"Sec-Fetch-Site", "same-site"}, 403, 403},
		{"a sandboxed frame", []string{"Origin", "null", "Sec-Fetch-Site", "cross-site"}, 403, 403},
		{"a sandboxed frame, old browser", []string{"Origin", "null"}, 403, 403},
		{"a lie", []string{"Origin", evil, "Sec-Fetch-Site", "same-origin"}, 403, 403},
	} {
		headers := append([]string{"Cookie", cookie}, c.headers...)
		if status, body := w.request("", "GET", operator.Prefix+"/status", "", headers...); status != max(c.get, 200) {
			t.Errorf("%s reads: %d %s", c.name, status, body)
		}
		if status, body := w.request("", "POST", operator.Prefix+"/reconcile", "{}", headers...); status != max(c.post, 204) {
			t.Errorf("%s writes: %d %s", c.name, status, body)
		}
		if res, body := w.answer("", "POST", loginsPath, byToken(secret), c.headers...); res.StatusCode != max(c.post, 204) || c.post != 0 && len(res.Cookies()) > 0 {
			t.Errorf("%s logs in: %d %s", c.name, res.StatusCode, body)
		}
	}
}

// Only one cookie of the right name that holds a login is one, and only where no token is sent.
func TestForgedCookies(t *testing.T) {
	w := newWorld(t)
	admin := w.adminSecret()
	cookie := w.login(byToken(admin))
	secret := strings.TrimPrefix(cookie, operator.LoginCookie+"=")
	for _, c := range []struct {
		name    string
		headers []string
		status  int
	}{
		{"as it is", []string{"Cookie", cookie}, 200},
		{"beside others", []string{"Cookie", "a=b; " + cookie + "; c=d"}, 200},
		{"without the prefix", []string{"Cookie", "steady=" + secret}, 401},
		{"the prefix that lets other hosts set it", []string{"Cookie", "__Secure-steady=" + secret}, 401},
		{"the prefix in lower case", []string{"Cookie", "__host-steady=" + secret}, 401},
		{"a cookie without a name", []string{"Cookie", "=" + cookie}, 401},
		{"a space within", []string{"Cookie", "__Host- steady=" + secret}, 401},
		{"two of them", []string{"Cookie", cookie + "; " + cookie}, 401},
		{"two of them, in two headers", []string{"Cookie", cookie, "Cookie", operator.LoginCookie + "=x"}, 401},
		{"nothing in it", []string{"Cookie", operator.LoginCookie + "="}, 401},
		{"a token in it", []string{"Cookie", operator.LoginCookie + "=" + admin}, 401},
		{"a login as a token", []string{"Authorization", "Bearer " + secret}, 401},
		{"a token as well", []string{"Authorization", "Bearer " + admin, "Cookie", cookie}, 401},
		{"another scheme as well", []string{"Authorization", "Basic eA==", "Cookie", cookie}, 401},
		{"a wrong one and a token", []string{"Authorization", "Bearer " + admin, "Cookie", operator.LoginCookie + "=x"}, 401},
	} {
		if status, body := w.request("", "GET", mePath, "", c.headers...); status != c.status {
			t.Errorf("%s: %d %s", c.name, status, body)
		}
	}
}

// A login makes what its role may make, and lives on in nothing else: no login, no link, and no
// login with its secret.
func TestLoginsBearNoLogins(t *testing.T) {
	w := newWorld(t)
	cookie := w.login(byToken(w.adminSecret()))
	secret := strings.TrimPrefix(cookie, operator.LoginCookie+"=")
	if status, body := w.request("", "POST", loginsPath, byToken(secret)); status != 401 {
		t.Errorf("a login with a login's secret: %d %s", status, body)
	}
	if status, body := w.request("", "POST", linksPath, "{}", "Cookie", cookie); status != 403 {
		t.Errorf("a link of a login: %d %s", status, body)
	}
	viewer := w.login(w.code(w.tokenOf(operator.Viewer, 0).Secret))
	ask := `{"name":"mallory","role":"admin"}`
	if status, body := w.request("", "POST", operator.Prefix+"/tokens", ask, "Cookie", viewer); status != 403 {
		t.Errorf("a viewer's login made a token: %d %s", status, body)
	}
	if status, body := w.request("", "POST", operator.Prefix+"/tokens", ask, "Cookie", cookie); status != 201 {
		t.Errorf("an admin's login: %d %s", status, body)
	}
	for _, body := range []string{`{}`, `{"token":"","code":""}`, `{"token":"a","code":"b"}`, `{"token":"` + strings.Repeat("a", 300) + `"}`, `[]`, `null`, ``} {
		if res, text := w.answer("", "POST", loginsPath, body); res.StatusCode/100 != 4 || len(res.Cookies()) > 0 {
			t.Errorf("login %q: %d %s", body, res.StatusCode, text)
		}
	}
}

// A code opens one login, whoever comes first of many; guesses are refused at a bounded rate, which
// keeps nobody out who is elsewhere or has a token that is good.
func TestCodesAreTakenOnce(t *testing.T) {
	w := newWorld(t)
	ann := w.tokenOf(operator.Viewer, 0)
	code := w.code(ann.Secret)
	var good atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if status, _ := w.request("", "POST", loginsPath, code); status == 204 {
				good.Add(1)
			}
		})
	}
	if all.Wait(); good.Load() != 1 {
		t.Errorf("one code opened %d logins", good.Load())
	}
	var last *http.Response
	for range 30 {
		if last, _ = w.answer("", "POST", loginsPath, `{"code":"guessed"}`); last.StatusCode == 429 {
			break
		}
	}
	if after, err := strconv.Atoi(last.Header.Get("Retry-After")); last.StatusCode != 429 || err != nil || after < 1 || after > 3 {
		t.Errorf("after 30 guesses: %d, Retry-After %q", last.StatusCode, last.Header.Get("Retry-After"))
	}
	if _, err := w.client(ann.Secret).Status(w.ctx()); err != nil {
		t.Errorf("a token beside the guesses: %v", err)
	}
}

// Somebody with a token who logs in without end has as many logins as one may, and fills the log no
// faster than the rate of logins.
func TestLoginsFlood(t *testing.T) {
	stopped := time.Now()
	w := newWorld(t, func(o *api.Options) { o.Control.Now = func() time.Time { return stopped } })
	eve, ann := w.tokenOf(operator.Viewer, 0), w.tokenOf(operator.Viewer, 0)
	before, made := w.server.Control().Head().Seq, 0
	var newest string
	for range 60 {
		res, _ := w.answer("", "POST", loginsPath, byToken(eve.Secret))
		switch {
		case res.StatusCode == 204:
			made++
			newest = operator.LoginCookie + "=" + res.Cookies()[0].Value
		case res.StatusCode != 429 || res.Header.Get("Retry-After") == "":
			t.Fatalf("a login among many: %d", res.StatusCode)
		}
	}
	if grown := w.server.Control().Head().Seq - before; made != 20 || grown > 45 {
		t.Errorf("60 times of logging in left %d logins and %d records", made, grown)
	}
	if status, _ := w.me(newest); status != 200 {
		t.Errorf("the newest login is answered %d", status)
	}
	logins := 0
	for _, x := range testkit.Value(w.op.Tokens(w.ctx()))(t) {
		if x.Parent == eve.ID {
			logins++
		}
	}
	if logins != access.MaxLogins {
		t.Errorf("%d logins", logins)
	}
	w.login(byToken(ann.Secret))
}

// TestWrongCodesKeepNobodyOut: however many wrong codes come from an address, in turn or one again and again, they are
// slowed down, and a right one passes.
func TestWrongCodesKeepNobodyOut(t *testing.T) {
	stopped := time.Now()
	w := newWorld(t, func(o *api.Options) { o.Control.Now = func() time.Time { return stopped } })
	ann := w.tokenOf(operator.Viewer, 0)
	right, spent := w.code(ann.Secret), w.code(ann.Secret)
	w.login(spent)
	for what, body := range map[string]func(int) string{ // order-free: each by itself
		"one code again and again": func(int) string { return spent },
		"codes in turn":            func(i int) string { return fmt.Sprintf(`{"code":"WRONG%021d"}`, i) },
		"tokens in turn":           func(i int) string { return byToken(fmt.Sprintf("wrong-%d", i)) },
	} {
		slowed, begun := 0, time.Now()
		for i := range 40 {
			res, _ := w.answer("", "POST", loginsPath, body(i))
			if res.StatusCode == 429 {
				slowed++
			} else if res.StatusCode != 401 {
				t.Fatalf("%s: %d", what, res.StatusCode)
			}
		}
		if slowed < 20 {
			t.Errorf("%s: %d of 40 were slowed down", what, slowed)
		}
		if took := time.Since(begun); took < time.Duration(slowed)*100*time.Millisecond {
			t.Errorf("%s: %d that were slowed down were all answered after %s", what, slowed, took)
		}
	}
	w.login(right)
	w.login(byToken(ann.Secret))
}

// What a login does stands in the log under its name.
func TestLoginsAreNamedInTheLog(t *testing.T) {
	w := newWorld(t)
	ann := w.tokenOf(operator.Admin, 0)
	cookie := w.login(byToken(ann.Secret))
	var id string
	for _, x := range testkit.Value(w.op.Tokens(w.ctx()))(t) {
		if x.Parent == ann.ID {
			id = x.ID
		}
	}
	if status, body := w.request("", "POST", operator.Prefix+"/tokens", `{"name":"bob","role":"viewer"}`, "Cookie", cookie); status != 201 {
		t.Fatalf("%d %s", status, body)
	}
	actor := fmt.Sprintf(`"actor":"tester (%s)"`, id)
	found := false
	for _, e := range testkit.Value(w.op.Events(w.ctx(), operatorAll))(t).Events {
		found = found || strings.Contains(string(e.Body), `"bob"`) && strings.Contains(string(e.Body), actor)
	}
	if id == "" || !found {
		t.Errorf("no event of bob's token names %s", actor)
	}
}

// No answer of the operators' listener can be put into a frame, taken for another type, or kept by a
// browser beyond its login: pages, refusals and what Anyone may ask included. A browser without a certificate
// gets all of them.
func TestHeadersOfEveryAnswer(t *testing.T) {
	w := newWorld(t)
	cookie := w.login(byToken(w.adminSecret()))
	check := func(res *http.Response, what string) {
		t.Helper()
		h := res.Header
		if csp := h.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'self'") || !strings.Contains(csp, "frame-ancestors 'none'") || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s is answered %d with %v", what, res.StatusCode, h)
		}
		if h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s may be read by another origin", what)
		}
	}
	for _, r := range operations.New(w.server.Control(), nil, nil).Routes() {
		for _, headers := range [][]string{nil, {"Cookie", cookie}, {"Origin", "https://evil.example"}} {
			if r.ID == "log-out" && headers != nil {
				continue
			}
			what := fmt.Sprint(r.Method, " ", r.Path, " ", headers)
			res, _ := w.answer("", r.Method, routePath.Replace(r.Path), "{}", headers...)
			check(res, what)
			if res.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s may be kept: %q", what, res.Header.Get("Cache-Control"))
			}
		}
	}
	for path, status := range map[string]int{"/": 200, "/login": 200, "/hosts/h": 200, "/assets/none.js": 404, "/v1/none": 404} {
		res, body := w.answer("", "GET", path, "")
		if check(res, path); res.StatusCode != status || status == 200 && !strings.Contains(body, "<!doctype html>") {
			t.Errorf("%s: %d %.60q", path, res.StatusCode, body)
		}
		if strings.Contains(body, testFleet) {
			t.Errorf("%s names the fleet", path)
		}
	}
}
