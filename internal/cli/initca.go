package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/keyring"
	"github.com/steadyfleet/steady/internal/trust"
)

// authorityKeys opens where the keys of the authorities are.
func authorityKeys(where string) (identity.Keys, func() error, error) {
	switch {
	case where == "" || where == "file":
		return identity.FileKeys{}, func() error { return nil }, nil
	case !strings.HasPrefix(where, keyring.TPMScheme):
		return nil, nil, exit.Badf("--ca-key %q: expected file, tpm:/dev/tpmrm0, or tpm:unix:SOCKET of an emulator", where)
	}
	m, err := keyring.OpenTPM(where)
	if err != nil {
		return nil, nil, err
	}
	return identity.ModuleKeys{Module: m}, m.Close, nil
}

type authorityView struct {
	Purpose     identity.Purpose `json:"purpose"`
	Key         string           `json:"key"`         // file of the private key, or of what finds it in the TPM
	Fingerprint string           `json:"fingerprint"` // SHA-256 of the certificate
	NotAfter    clock.Instant    `json:"notAfter"`
}

type initCAOptions struct {
	data, root, fleet, caKey string
	replace                  bool
}

func (a *app) initCACmd() *cobra.Command {
	var o initCAOptions
	cmd := &cobra.Command{
		Use: "init-ca", Short: "Make the authorities of a server, or replace them",
		Long: `Makes the two authorities of a server before its first start, as the first start
would: one for the certificates of hosts, one for its own. With --ca-key tpm:…
their keys are made in a TPM and never leave it; what lies in DATA/pki is of use
with that TPM only.

--replace puts authorities that are there aside, in DATA/pki/replaced-TIME, and
makes new ones: the server's certificate and every host's end, and every host
enrols again with a token that names the new authority.`,
		Example: "  steady server init-ca --data /var/lib/steady --root 1.root.json --ca-key tpm:/dev/tpmrm0\n  steady server init-ca --data /var/lib/steady --ca-key tpm:/dev/tpmrm0 --replace",
		RunE:    func(*cobra.Command, []string) error { return a.initCA(o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.data, "data", "", "data folder of the server (required)")
	f.StringVar(&o.root, "root", "", "the fleet's first root document, which names the fleet")
	f.StringVar(&o.fleet, "fleet", "", "name of the fleet (default: that of the root, or of the authorities that are replaced)")
	f.StringVar(&o.caKey, "ca-key", "file", "where the keys are made: file, tpm:/dev/tpmrm0, or tpm:unix:SOCKET of an emulator")
	f.BoolVar(&o.replace, "replace", false, "put authorities that are there aside; every host enrols again")
	return a.PrintsData(cmd)
}

func (a *app) initCA(o initCAOptions) (err error) {
	if o.data == "" {
		return exit.Badf("give the server's data folder with --data DIR")
	}
	if err := os.MkdirAll(o.data, 0o700); err != nil {
		return err
	}
	unlock, err := lockData(o.data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	pki := filepath.Join(o.data, "pki")
	fleetName, err := o.fleetName(pki)
	if err != nil {
		return err
	}
	keys, closeKeys, err := authorityKeys(o.caKey)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeKeys()) }()
	if o.replace {
		if err := backUp(pki, a.Wall()); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(pki, 0o700); err != nil {
		return err
	}
	var made []authorityView
	for _, purpose := range []identity.Purpose{identity.Hosts, identity.Servers} {
		authority, err := identity.CreateAuthority(keys, pki, purpose, fleetName, time.UnixMilli(int64(a.Wall())))
		if errors.Is(err, fs.ErrExist) {
			return exit.Badf("%s holds authorities already: --replace puts them aside, and every host enrols again", pki)
		}
		if err != nil {
			return err
		}
		cert := authority.Certificate()
		sum := sha256.Sum256(cert.Raw)
		made = append(made, authorityView{purpose, filepath.Join(pki, keys.File(purpose)), hex.EncodeToString(sum[:]), clock.FromTime(cert.NotAfter)})
	}
	return a.Print(made, func() error {
		var rows [][]string
		for _, m := range made {
			rows = append(rows, []string{string(m.Purpose), m.Key, m.Fingerprint[:16], m.NotAfter.String()})
		}
		if err := a.Table([]string{"authority for", "key", "certificate", "good until"}, rows); err != nil {
			return err
		}
		a.Printf("Next: steady server --data %s --ca-key %s\n", o.data, o.caKey)
		return nil
	})
}

func (o initCAOptions) fleetName(pki string) (string, error) {
	if o.fleet != "" {
		return o.fleet, nil
	}
	if o.root != "" {
		raw, err := os.ReadFile(o.root)
		if err != nil {
			return "", exit.Badf("--root: %w; steady keys init makes it", err)
		}
		r, err := trust.ReadRoot(raw)
		return r.Fleet, exit.Bad(err)
	}
	raw, err := os.ReadFile(filepath.Join(pki, "hosts-ca.pem"))
	if err == nil {
		if cert, err := identity.ParseCertificate(raw); err == nil && len(cert.Subject.Organization) == 1 {
			return cert.Subject.Organization[0], nil
		}
	}
	return "", exit.Badf("the fleet's name is not known; give --root 1.root.json, or --fleet NAME")
}

// backUp moves what is in the folder of authorities into one below it.
func backUp(pki string, now clock.Instant) error {
	entries, err := os.ReadDir(pki)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	aside := filepath.Join(pki, fmt.Sprintf("replaced-%d", now))
	if err := os.Mkdir(aside, 0o700); err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type().IsRegular() {
			if err := os.Rename(filepath.Join(pki, e.Name()), filepath.Join(aside, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
