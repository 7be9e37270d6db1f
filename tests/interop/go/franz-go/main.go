// franz-go (kgo, kadm) against a cluster.
package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"interop/program"
)

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func main() {
	program.Run(program.Client{
		Module: "github.com/twmb/franz-go", Produce: produce, Consume: consume, Admin: admin,
	})
}

func produce(p program.Produce) error {
	options := []kgo.Opt{
		kgo.SeedBrokers(p.Bootstrap...),
		kgo.DefaultProduceTopic(p.Topic),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(codecs[p.Codec]),
		kgo.ProducerLinger(5 * time.Millisecond),
	}
	if !p.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx := context.Background()
	var mutex sync.Mutex
	var failed error
	err = p.Chunks(func(numbers []int) error {
		for _, number := range numbers {
			record := &kgo.Record{Key: program.Key(number), Value: program.Value(number)}
			client.Produce(ctx, record, func(r *kgo.Record, err error) {
				mutex.Lock()
				defer mutex.Unlock()
				if failed = errors.Join(failed, err); err == nil {
					program.Told(r.Partition, r.Offset, number)
				}
			})
		}
		return nil
	})
	err = errors.Join(err, client.Flush(ctx))
	mutex.Lock()
	defer mutex.Unlock()
	return errors.Join(err, failed)
}

func consume(c program.Consume) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(c.Bootstrap...),
		kgo.ConsumerGroup(c.Group),
		kgo.ConsumeTopics(c.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx := context.Background()
	seen := map[int]bool{}
	for len(seen) < c.Count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			number := program.NumberOf(r.Value)
			seen[number] = true
			program.Told(r.Partition, r.Offset, number)
		})
		err = client.CommitUncommittedOffsets(ctx)
		client.AllowRebalance()
	}
	return err // of the last commit: one in the middle may meet a broker that is gone
}

func admin(a program.Admin) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(a.Bootstrap...))
	if err != nil {
		return err
	}
	defer client.Close()
	adm := kadm.NewClient(client)
	ctx := context.Background()
	retention := func() (any, error) {
		configs, err := adm.DescribeTopicConfigs(ctx, a.Topic)
		if err != nil {
			return nil, err
		}
		found, err := configs.On(a.Topic, nil)
		for _, config := range found.Configs {
			if config.Key == "retention.ms" {
				return config.MaybeValue(), err
			}
		}
		return nil, err
	}
	partitions := func() (int, error) {
		topics, err := adm.ListTopics(ctx, a.Topic)
		return len(topics[a.Topic].Partitions), err
	}
	return program.Steps([]program.Step{
		{"cluster", func() (any, error) {
			found, err := adm.BrokerMetadata(ctx)
			return len(found.Brokers), err
		}},
		{"create", func() (any, error) {
			configs := map[string]*string{"retention.ms": kadm.StringPtr("123456")}
			_, err := adm.CreateTopic(ctx, 3, 3, configs, a.Topic)
			return "ok", err
		}},
		{"describe", func() (any, error) { return program.Soon(3, partitions) }},
		{"config", retention},
		{"alter", func() (any, error) {
			change := kadm.AlterConfig{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("654321")}
			done, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{change}, a.Topic)
			if err != nil {
				return nil, err
			}
			_, err = done.On(a.Topic, func(r *kadm.AlterConfigsResponse) error { return r.Err })
			answer, further := retention()
			return answer, errors.Join(err, further)
		}},
		{"grow", func() (any, error) {
			done, err := adm.UpdatePartitions(ctx, 5, a.Topic)
			if err = errors.Join(err, done.Error()); err != nil {
				return nil, err
			}
			return program.Soon(5, partitions)
		}},
		{"groups", func() (any, error) {
			found, err := adm.ListGroups(ctx)
			return found[a.Group].Group == a.Group, err
		}},
		{"group", func() (any, error) {
			found, err := adm.DescribeGroups(ctx, a.Group)
			return found[a.Group].State, err
		}},
		{"offsets", func() (any, error) {
			found, err := adm.FetchOffsets(ctx, a.Group)
			sum := int64(0)
			found.Each(func(o kadm.OffsetResponse) { sum += o.At })
			return sum, err
		}},
		{"ends", func() (any, error) {
			found, err := adm.ListEndOffsets(ctx, a.Data)
			sum := int64(0)
			found.Each(func(o kadm.ListedOffset) { sum += o.Offset })
			return sum, err
		}},
		{"delete-records", func() (any, error) {
			var upTo kadm.Offsets
			upTo.AddOffset(a.Data, 0, 5, -1)
			done, err := adm.DeleteRecords(ctx, upTo)
			return done[a.Data][0].LowWatermark, errors.Join(err, done.Error())
		}},
		{"delete-group", func() (any, error) {
			done, err := adm.DeleteGroup(ctx, a.Group)
			return "ok", errors.Join(err, done.Err)
		}},
		{"delete", func() (any, error) {
			done, err := adm.DeleteTopic(ctx, a.Topic)
			return "ok", errors.Join(err, done.Err)
		}},
	})
}
