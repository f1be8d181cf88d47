package external

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
)

// jetStreamPing is answered by every server, to users of the system account alone.
const jetStreamPing = "$SYS.REQ.SERVER.PING.JSZ"

// quiet is how long no other server may answer until nobody is waited for.
const quiet = time.Second

// report is a server's answer.
type report struct {
	Server struct {
		Name    string `json:"name"`
		Cluster string `json:"cluster"`
		Version string `json:"ver"`
	} `json:"server"`
	Data struct {
		Disabled bool `json:"disabled"` // it has no JetStream
		Config   struct {
			SyncAlways bool `json:"sync_always"`
		} `json:"config"`
		Meta struct {
			Size int `json:"cluster_size"`
		} `json:"meta_cluster"`
	} `json:"data"`
}

// A silentError says which servers have not said whether they sync every write.
type silentError struct{ which string }

func (e *silentError) Error() string {
	return "these servers have not said whether they sync every write: " + e.which
}

// synced asks all servers of the cluster that are up whether they sync every write: LOG
// may come to any of them. Those that keep it already have to answer, or as many as it
// takes while there is none.
func synced(ctx context.Context, s Servers, cluster string, keep []string, tell func(error)) error {
	all, err := ask(ctx, s)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(r report) bool { return r.Data.Disabled || r.Server.Cluster != cluster })
	if len(all) == 0 {
		return errors.New("no server with JetStream has answered its system account")
	}
	silent := slices.DeleteFunc(slices.Clone(keep), func(name string) bool {
		return slices.ContainsFunc(all, func(r report) bool { return r.Server.Name == name })
	})
	var lazy, old []string
	most := 0
	for _, r := range all {
		most = max(most, r.Data.Meta.Size)
		if !r.Data.Config.SyncAlways {
			lazy = append(lazy, r.Server.Name)
		}
		if older(r.Server.Version, oldest) {
			old = append(old, r.Server.Name+" ("+r.Server.Version+")")
		}
	}
	switch {
	case len(lazy) > 0:
		return refuse("these servers do not sync every write: %s; set sync_interval: always in their jetstream block and start them anew, "+
			"or accept it with --accept-lazy-sync (see its help for what that costs)", names(lazy))
	case len(old) > 0:
		return refuse("these servers are too old: %s; %s is the oldest that will do", names(old), oldest)
	case len(silent) > 0:
		return &silentError{names(silent)}
	case len(keep) == 0 && len(all) < s.Replicas:
		return &silentError{fmt.Sprintf("all but %d, and the log takes %d", len(all), s.Replicas)}
	case most > len(all):
		tell(fmt.Errorf("%d of %d NATS servers have not said whether they sync every write", most-len(all), most))
	}
	return nil
}

func names(all []string) string {
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// withoutUser is the URLs without the user that they name.
func withoutUser(all string) string {
	var bare []string
	for one := range strings.SplitSeq(all, ",") {
		if u, err := url.Parse(one); err == nil && u.Host != "" {
			u.User = nil
			one = u.String()
		} else if _, host, ok := strings.Cut(one, "@"); ok {
			one = host
		}
		bare = append(bare, one)
	}
	return strings.Join(bare, ",")
}

// ask collects the answers of all servers.
func ask(ctx context.Context, s Servers) (all []report, err error) {
	nc, err := nats.Connect(withoutUser(s.URL), append([]nats.Option{nats.Name("payledger"), nats.Timeout(onceTime)}, s.System...)...)
	switch {
	case errors.Is(err, nats.ErrAuthorization):
		return nil, refuse("the servers do not let in the user of --nats-system-credentials: %v", err)
	case err != nil:
		return nil, fmt.Errorf("connecting to the system account of NATS: %w", err)
	}
	defer nc.Close()
	inbox, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		return nil, err
	}
	if err := nc.PublishRequest(jetStreamPing, inbox.Subject, nil); err != nil {
		return nil, err
	}
	for {
		waiting, cancel := context.WithTimeout(ctx, quiet)
		m, err := inbox.NextMsgWithContext(waiting)
		cancel()
		switch {
		case errors.Is(err, nats.ErrNoResponders), len(all) == 0 && errors.Is(nc.LastError(), nats.ErrPermissionViolation):
			return nil, refuse("the user of --nats-system-credentials is none of the servers' system account")
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("asking the system account of NATS: %w", err)
		}
		var r report
		if err := json.Unmarshal(m.Data, &r); err != nil {
			return nil, fmt.Errorf("the answer of a NATS server's system account: %w", err)
		}
		all = append(all, r)
	}
}
