package kafkatest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// clusterID is any id: clusters of different tests never meet.
const clusterID = "4L6g3nShT-eMCtK--X86sw"

// An image is what a broker starts from: formatted storage, and an archive of its loaded classes
// that halves the time to readiness. Both are made once per set of jars and kept in the user's cache.
type image struct {
	dir   string
	flags []string // of the JVM
}

func (i image) storage() string { return filepath.Join(i.dir, "storage") }
func (i image) archive() string { return filepath.Join(i.dir, "classes.jsa") }

// loadImage finds or makes the image. One process makes it, others wait.
func loadImage(ctx context.Context, tc toolchain, features []string, s slot) (image, error) {
	img, err := imageFor(tc, features)
	if err != nil {
		return img, err
	}
	unlock, err := lockFile(img.dir + ".lock")
	if err != nil {
		return img, err
	}
	defer unlock()
	if err := img.format(ctx, tc, features); err != nil {
		return img, err
	}
	if err := img.train(ctx, tc, s); err != nil {
		return img, err
	}
	img.flags = []string{"-XX:SharedArchiveFile=" + img.archive()}
	return img, nil
}

func imageFor(tc toolchain, features []string) (image, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	java, err := filepath.EvalSymlinks(tc.java)
	if err != nil {
		return image{}, err
	}
	sum := sha256.Sum256([]byte(java + "\n" + tc.classpath + "\n" + strings.Join(features, ",")))
	dir := filepath.Join(cache, "tallystick", "kafka-image", fmt.Sprintf("%x", sum[:8]))
	return image{dir: dir}, os.MkdirAll(dir, 0o755)
}

func lockFile(name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return func() { f.Close() }, nil
}

// format runs Kafka's storage tool. What it writes depends on no port and, but for one line of
// meta.properties, on no node id: so all brokers copy it.
func (i image) format(ctx context.Context, tc toolchain, features []string) error {
	if _, err := os.Stat(i.storage()); err == nil {
		return nil
	}
	fresh := i.storage() + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	config := filepath.Join(i.dir, "format.properties")
	text, err := brokerConfig(Options{Brokers: 1}, slot{first: 1}, 0, fresh)
	if err != nil {
		return err
	}
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return err
	}
	args := []string{"format", "-t", clusterID, "-c", config}
	for _, f := range features {
		args = append(args, "--feature", f)
	}
	out, err := tc.command(nil, "kafka.tools.StorageTool", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("format storage: %w: %s", err, out)
	}
	return os.Rename(fresh, i.storage())
}

func (i image) copyTo(dir string, nodeID int) error {
	if err := os.CopyFS(dir, os.DirFS(i.storage())); err != nil {
		return fmt.Errorf("copy formatted storage: %w", err)
	}
	meta := fmt.Sprintf("version=1\nnode.id=%d\ncluster.id=%s\n", nodeID, clusterID)
	return os.WriteFile(filepath.Join(dir, "meta.properties"), []byte(meta), 0o644)
}

// train runs one broker through what tests do and lets it write its classes down when it ends.
func (i image) train(ctx context.Context, tc toolchain, s slot) error {
	if _, err := os.Stat(i.archive()); err == nil {
		return nil
	}
	fresh := i.archive() + ".new"
	i.flags = []string{"-XX:ArchiveClassesAtExit=" + fresh}
	c, err := newCluster(tc, i, Options{Brokers: 1}, s)
	if err != nil {
		return err
	}
	defer os.RemoveAll(c.dir)
	defer c.kill()
	if err := c.start(ctx); err != nil {
		return err
	}
	if err := exercise(ctx, c.Seeds()); err != nil {
		return fmt.Errorf("class archive: %w", err)
	}
	if err := c.Brokers[0].Terminate(ctx); err != nil {
		return fmt.Errorf("class archive: %w", err)
	}
	return os.Rename(fresh, i.archive())
}

// exercise commits one transaction that consumed and produced.
func exercise(ctx context.Context, seeds []string) error {
	const in, out = "train-in", "train-out"
	admin, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.DefaultProduceTopic(in))
	if err != nil {
		return err
	}
	defer admin.Close()
	if _, err := kadm.NewClient(admin).CreateTopics(ctx, 1, 1, nil, in, out); err != nil {
		return err
	}
	if err := admin.ProduceSync(ctx, kgo.StringRecord("x")).FirstErr(); err != nil {
		return err
	}
	s, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(seeds...), kgo.TransactionalID("train"), kgo.ConsumerGroup("train"),
		kgo.ConsumeTopics(in), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.TransactionTimeout(10*time.Second))
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.PollFetches(ctx).Err(); err != nil {
		return err
	}
	if err := s.Begin(); err != nil {
		return err
	}
	s.Produce(ctx, &kgo.Record{Topic: out, Value: []byte("y")}, nil)
	_, err = s.End(ctx, kgo.TryCommit)
	return err
}
