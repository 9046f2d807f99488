package operations

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/core/access"
	"github.com/steadyfleet/steady/internal/wire"
)

// logins registers how a browser logs in and out, and who it is then.
func (h *Handler) logins() {
	add(h, huma.Operation{OperationID: "create-login-link", Method: http.MethodPost, Path: "/login-links", Summary: "Make a code that logs a browser in once, within a minute",
		DefaultStatus: http.StatusCreated, MaxBodyBytes: 64 << 10}, lasting, h.createLoginLink)
	register(h, huma.Operation{OperationID: "log-in", Method: http.MethodPost, Path: "/logins", Summary: "Log in with a token or a code; the answer is a cookie",
		DefaultStatus: http.StatusNoContent, MaxBodyBytes: 4 << 10}, anyone, h.logIn)
	register(h, huma.Operation{OperationID: "log-out", Method: http.MethodDelete, Path: "/logins", Summary: "Log out", DefaultStatus: http.StatusNoContent},
		viewing, h.logOut)
	add(h, get("me", "/me", "Who asks, and which operations its role allows"), viewing, h.me)
}

const otherSite = "requests from other sites are refused"

// fromElsewhere reports whether a browser says that the request is from the page of
// another origin.
func fromElsewhere(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	u, err := url.Parse(origin)
	return origin != "" && (err != nil || u.Host != r.Host)
}

// caller is who bears the token of a request, or has the login of its cookie.
func (h *Handler) caller(r *http.Request) (control.Operator, *huma.ErrorModel) {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	cookies := r.CookiesNamed(operator.LoginCookie)
	login := scheme == ""
	switch {
	case !login && len(cookies) > 0 || len(cookies) > 1:
		return control.Operator{}, refused(http.StatusUnauthorized, "the request says twice who it is from: send a token or the cookie of one login")
	case login && len(cookies) == 1:
		// The cookie goes to every port of this host, and with a GET that another one's page asks for.
		if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
			return control.Operator{}, refused(http.StatusForbidden, otherSite)
		}
		secret = cookies[0].Value
	case !strings.EqualFold(scheme, "Bearer"): // RFC 9110, 11.1
		return control.Operator{}, refused(http.StatusUnauthorized, "an operator token is needed, Authorization: Bearer TOKEN, or a login: steady ui opens one")
	}
	who, err := h.c.Operator(secret)
	switch {
	case err != nil && login:
		return control.Operator{}, refused(http.StatusUnauthorized, "the login has ended, or is not known to this server; log in again: steady ui opens the page")
	case err != nil:
		return control.Operator{}, refused(http.StatusUnauthorized, err.Error())
	case who.ByLogin() != login:
		return control.Operator{}, refused(http.StatusUnauthorized, "a token is sent as Authorization: Bearer TOKEN, and a login as its cookie")
	}
	return who, nil
}

func (h *Handler) createLoginLink(ctx context.Context, _ *none) (operator.LoginLink, error) {
	who, _ := ctx.Value(actorKey{}).(control.Operator)
	code, expires := h.c.LoginCode(who.ID)
	return operator.LoginLink{Code: code, Expires: expires}, nil
}

type (
	loginIn struct {
		from string
		Body operator.NewLogin
	}
	cookieOut struct {
		SetCookie http.Cookie `header:"Set-Cookie"`
	}
)

// Resolve implements huma.Resolver.
func (in *loginIn) Resolve(ctx huma.Context) []error {
	in.from = access.Network(ctx.RemoteAddr()).String()
	return nil
}

func (h *Handler) logIn(ctx context.Context, in *loginIn) (*cookieOut, error) {
	if (in.Body.Token == "") == (in.Body.Code == "") {
		return nil, wire.Refuse(wire.ErrInvalid, "a login is by token or by code")
	}
	if err := h.c.Admits(); err != nil {
		return nil, err
	}
	o, secret, err := h.c.Login(ctx, in.from, in.Body.Token, in.Body.Code)
	if slices.ContainsFunc([]error{wire.ErrForbidden, wire.ErrConflict, wire.ErrNotFound}, func(kind error) bool { return errors.Is(err, kind) }) {
		return nil, refused(http.StatusUnauthorized, err.Error())
	}
	if err != nil {
		return nil, err
	}
	c := loginCookie(secret)
	c.Expires = o.Expires.Time()
	return &cookieOut{c}, nil
}

func (h *Handler) logOut(ctx context.Context, _ *none) (*cookieOut, error) {
	who, _ := ctx.Value(actorKey{}).(control.Operator)
	if !who.ByLogin() {
		return nil, wire.Refuse(wire.ErrConflict, "a token is no login; steady operator revoke %s withdraws it", who.ID)
	}
	ended := loginCookie("")
	ended.MaxAge = -1
	return &cookieOut{ended}, h.c.RevokeOperator(ctx, who.ID, false, actor(ctx))
}

// loginCookie is one that no script reads, no other host or path sets, and no other site sends.
func loginCookie(secret string) http.Cookie {
	return http.Cookie{Name: operator.LoginCookie, Value: secret, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode}
}

func (h *Handler) me(ctx context.Context, _ *none) (operator.Me, error) {
	who, _ := ctx.Value(actorKey{}).(control.Operator)
	out := operator.Me{Name: who.Name, Role: operator.Role(who.Role), Expires: who.Expires, Login: who.ByLogin(), Allowed: []string{}}
	for _, r := range h.routes {
		if r.Permission.Admits(out.Role) && !(r.Permission.Lasting && out.Login) {
			out.Allowed = append(out.Allowed, r.ID)
		}
	}
	slices.Sort(out.Allowed)
	return out, nil
}
