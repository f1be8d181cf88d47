package salvage

import (
	"errors"
	"fmt"
	"math/bits"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/eventstore/salvage"
	"payledger/eventstore/translog"
)

// checkpoints opens the checkpoints and finds the log's id, which must be the same
// in every source and key that has one.
func (s *salvaging) checkpoints() ([]salvage.Checkpoint, error) {
	given, err := datadir.ReadTrustAnchors(s.Checkpoints, s.VerifierKeys)
	if err != nil {
		return nil, err
	}
	for _, p := range given.Checkpoints {
		s.points = append(s.points, signedPoint{name: p.Name, signed: p.Signed})
	}
	s.verifiers = given.Verifiers
	texts := s.keys
	if len(texts)+len(s.verifiers) == 0 {
		texts = s.brought
	}
	for _, text := range texts {
		v, err := translog.ParseVerifier(text)
		if err != nil {
			s.miss("a verifier key", err)
			continue
		}
		s.verifiers = append(s.verifiers, v)
	}
	s.repairIDs()
	if s.log, err = salvage.LogID(s.sources); err != nil {
		return nil, cli.Errorf(cli.ExitDirectory, "%w: name those of one log only", err)
	}
	for _, v := range s.verifiers {
		id, ok := translog.LogOf(v.Origin())
		switch {
		case !ok:
		case s.log.IsZero():
			s.log = id
		case s.log != id:
			return nil, cli.Errorf(cli.ExitDirectory, "the verifier key %s is that of another log, this is %s: name the sources of one log only", v.Key(), s.log)
		}
	}
	var all []salvage.Checkpoint
	for _, p := range s.points {
		c, err := openPoint(p.signed, s.verifiers)
		if err != nil {
			s.miss(p.name, err)
			continue
		}
		p.size = c.Size
		s.opened = append(s.opened, p)
		all = append(all, salvage.Checkpoint{Checkpoint: c, Name: p.name})
	}
	if s.log.IsZero() && len(s.sources) > 0 {
		return nil, cli.Errorf(cli.ExitDirectory, "no source tells which log this is: give its verifier key with --verifier-key, or a data directory with its log.key")
	}
	if s.log == (domain.ID{}) {
		return nil, cli.Errorf(cli.ExitDirectory, "nothing of a log can be read in these sources: nothing was written")
	}
	return all, nil
}

func openPoint(signed []byte, keys []*translog.Verifier) (c translog.Checkpoint, err error) {
	err = errors.New("there is no verifier key to check its signature with: give one with --verifier-key")
	for _, v := range keys {
		if c, err = v.Open(signed); err == nil {
			return c, nil
		}
	}
	return c, err
}

// maxDamagedBits is how many bits of a source's log id may be wrong. The ids of
// two different logs differ in some 40 of their random bits.
const maxDamagedBits = 8

// repairIDs corrects a source's log id if it is almost the id of a verifier key:
// no checksum covers the id in a ledger.db.
func (s *salvaging) repairIDs() {
	for _, v := range s.verifiers {
		id, ok := translog.LogOf(v.Origin())
		for _, source := range s.sources {
			wrong := 0
			for i := range id {
				wrong += bits.OnesCount8(id[i] ^ source.Log[i])
			}
			if ok && wrong > 0 && wrong <= maxDamagedBits {
				fmt.Fprintf(s.Stderr, "payledger: %s: its log id is damaged: using the id of the verifier key\n", source.Name)
				source.Log = id
			}
		}
	}
}
