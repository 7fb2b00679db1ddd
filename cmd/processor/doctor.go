package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/connect"
)

// doctorLimit bounds a whole examination.
const doctorLimit = time.Minute

// verdictWord is what a check came to.
type verdictWord string

const (
	isOK   verdictWord = "ok"
	isWarn verdictWord = "warn"
	isFail verdictWord = "FAIL"
)

// finding is one line of doctor.
type finding struct {
	Check  string      `json:"check"`
	On     string      `json:"on,omitempty"` // address, topic, group…
	Result verdictWord `json:"result"`
	Said   string      `json:"said"`
	Remedy string      `json:"remedy,omitempty"`
	Kind   string      `json:"kind,omitempty"` // of a connection's fault: one word for scripts

	passes bool // waiting may cure it
}

func (f finding) cells() []string {
	said := f.Said
	if f.Remedy != "" {
		said += "; " + f.Remedy
	}
	return []string{string(f.Result), f.Check, f.On, said}
}

func newDoctor(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine connection, topics, rights, group and state.dir; change nothing",
		Long: "doctor goes through everything that run needs, in the order in which it would fail, and prints one line for each check: ok, warn or FAIL\n" +
			"with the remedy. It begins with the connection (dns, tcp, tls, broker, login), at every bootstrap server and at every address that the\n" +
			"cluster advertises, then compares topics, asks for the rights of run, looks at the group, at open transactions and at state.dir, and\n" +
			"compares this machine's clock with the active controller's, if it may (DESCRIBE on the cluster); the other brokers' cannot be read. It\n" +
			"writes nothing, joins nothing and fences nothing. What could not be looked at for an earlier failure is left out.\n\n" +
			"Exit 0: nothing failed (warnings may be there). 3: something failed. 5: no broker could be reached, and waiting may help.\n" +
			"A right to WRITE on transactional ids cannot be tried without using it: run finds out.",
		Example: "  processor doctor --config processor.yaml\n  processor doctor -o json | jq '.[] | select(.result != \"ok\")'",
	}
	configFlags(cmd, groupConnection, groupApplication, groupEngine, groupLedger, groupTopics)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := c.settings(cmd)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), doctorLimit)
		defer cancel()
		found, err := c.examine(ctx, s)
		if err != nil {
			return err
		}
		if err := printList(c, []string{"result", "check", "on", "what"}, found, finding.cells); err != nil {
			return err
		}
		return diagnosisOf(found)
	}
	return cmd
}

// diagnosisOf is the exit code of all findings.
func diagnosisOf(found []finding) error {
	failed := slices.DeleteFunc(slices.Clone(found), func(f finding) bool { return f.Result != isFail })
	switch {
	case len(failed) == 0:
		return nil
	case !slices.ContainsFunc(failed, func(f finding) bool { return !f.passes }):
		return silent(exitUnavailable)
	}
	return silent(exitCheckFailed)
}

// examine does every check, and those of the cluster only when it can be reached.
func (c *cli) examine(ctx context.Context, s settings) ([]finding, error) {
	conn, err := s.connection(nil)
	if err != nil {
		return nil, err
	}
	found := []finding{{Check: "config", Result: isOK, Said: "application.id " + s.ApplicationID + ", security.protocol " + s.SecurityProtocol}}
	found = append(found, checkStateDir(s.Config)...)
	survey := conn.Look(ctx, true)
	for _, d := range survey.Bootstrap {
		found = append(found, doorFindings(d, conn)...)
	}
	found = append(found, advertisedFindings(survey)...)
	if survey.Fault() != nil {
		return found, ctx.Err()
	}
	client, err := s.newClient()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for _, check := range []func(context.Context, Config, *kgo.Client) []finding{checkTopics, checkRights, checkGroup, checkOffsets, checkTransactions, checkClock} {
		found = append(found, check(ctx, s.Config, client)...)
	}
	return found, nil
}

// doorFindings are the steps of one connection: those that were taken, and the one that failed.
func doorFindings(d connect.Door, s connect.Settings) []finding {
	steps := []struct {
		stage connect.Stage
		check string
		said  string
		skip  bool
	}{
		{connect.Resolved, "dns", strings.Join(d.Addresses, ", "), false},
		{connect.Connected, "tcp", "accepts connections", false},
		{connect.Encrypted, "tls", tlsWords(d), s.TLS == nil},
		{connect.Spoke, "broker", fmt.Sprintf("Kafka %s, answers in %s", strings.TrimPrefix(d.Version, "v"), d.Took.Round(100*time.Microsecond)), false},
		{connect.LoggedIn, "login", loginWords(s), false},
	}
	var found []finding
	for _, step := range steps {
		switch {
		case step.skip:
		case d.Reached >= step.stage:
			found = append(found, finding{Check: step.check, On: d.Addr, Result: isOK, Said: step.said})
		case d.Fault != nil:
			return append(found, faultFinding(step.check, d.Addr, d.Fault))
		}
	}
	return found
}

func faultFinding(check, on string, f *connect.Fault) finding {
	return finding{Check: check, On: on, Result: isFail, Said: f.Cause, Remedy: f.Remedy, Kind: string(f.Kind), passes: f.Passes()}
}

// soonEnds is when the end of a certificate is worth a word.
const soonEnds = 14 * 24 * time.Hour

func tlsWords(d connect.Door) string {
	if d.TLS == nil || len(d.TLS.PeerCertificates) == 0 {
		return ""
	}
	cert := d.TLS.PeerCertificates[0]
	said := fmt.Sprintf("certificate of %s, signed by %s, until %s", cert.Subject, cert.Issuer, cert.NotAfter.UTC().Format(time.DateOnly))
	if time.Until(cert.NotAfter) < soonEnds {
		said += ": have it renewed soon"
	}
	return said
}

func loginWords(s connect.Settings) string {
	if s.Login == nil {
		return "none is wanted"
	}
	return strings.TrimSpace(s.Login.Name() + " " + s.User)
}

// advertisedFindings are the brokers where the cluster says they are. One that cannot be reached is a failure although others
// can: its partitions cannot be used.
func advertisedFindings(s connect.Survey) []finding {
	var found []finding
	for _, b := range s.Brokers {
		on := fmt.Sprintf("broker %d", b.ID)
		if b.Door.Fault != nil {
			found = append(found, faultFinding("advertised", on, b.Door.Fault))
			continue
		}
		found = append(found, finding{Check: "advertised", On: on, Result: isOK, Said: b.Addr + " can be used"})
	}
	return found
}

// failedLook is a check that could not be made.
func failedLook(check, on string, err error) finding {
	code, hint := diagnose(err)
	f := (*failure)(nil)
	if errors.As(err, &f) {
		code, hint = f.code, f.hint
	}
	return finding{Check: check, On: on, Result: isFail, Said: err.Error(), Remedy: hint, passes: code == exitUnavailable}
}
