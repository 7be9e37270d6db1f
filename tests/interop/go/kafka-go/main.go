// kafka-go (segmentio) against a cluster. It has no idempotent producer and can't delete records.
package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"interop/program"
)

var codecs = map[string]kafka.Compression{
	"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

func main() {
	program.Run(program.Client{
		Module: "github.com/segmentio/kafka-go", Produce: produce, Consume: consume, Admin: admin,
	})
}

func produce(p program.Produce) error {
	var mutex sync.Mutex
	writer := &kafka.Writer{
		Addr:         kafka.TCP(p.Bootstrap...),
		Topic:        p.Topic,
		Balancer:     &kafka.Hash{},
		RequiredAcks: kafka.RequireAll,
		Compression:  codecs[p.Codec],
		BatchTimeout: 5 * time.Millisecond,
		MaxAttempts:  30,
		Completion: func(messages []kafka.Message, err error) {
			mutex.Lock()
			defer mutex.Unlock()
			for _, message := range messages {
				if err == nil {
					program.Told(int32(message.Partition), message.Offset, message.WriterData.(int))
				}
			}
		},
	}
	err := p.Chunks(func(numbers []int) error {
		var messages []kafka.Message
		for _, number := range numbers {
			messages = append(messages, kafka.Message{
				Key: program.Key(number), Value: program.Value(number), WriterData: number,
			})
		}
		return writer.WriteMessages(context.Background(), messages...)
	})
	return errors.Join(err, writer.Close())
}

func consume(c program.Consume) error {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:        c.Bootstrap,
		GroupID:        c.Group,
		Topic:          c.Topic,
		StartOffset:    kafka.FirstOffset,
		MaxWait:        100 * time.Millisecond,
		SessionTimeout: 6 * time.Second,
		MaxAttempts:    30,
		CommitInterval: 0, // CommitMessages waits for the answer
	})
	ctx := context.Background()
	seen := map[int]bool{}
	var uncommitted []kafka.Message
	for len(seen) < c.Count {
		message, err := reader.FetchMessage(ctx)
		if err != nil {
			return err
		}
		number := program.NumberOf(message.Value)
		seen[number] = true
		program.Told(int32(message.Partition), message.Offset, number)
		uncommitted = append(uncommitted, message)
		if len(uncommitted) == 100 {
			// A failure leaves them for the commit after the next record.
			if reader.CommitMessages(ctx, uncommitted...) == nil {
				uncommitted = nil
			}
		}
	}
	return errors.Join(reader.CommitMessages(ctx, uncommitted...), reader.Close())
}

func admin(a program.Admin) error {
	client := &kafka.Client{Addr: kafka.TCP(a.Bootstrap...)}
	ctx := context.Background()
	retention := func() (any, error) {
		found, err := client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
			Resources: []kafka.DescribeConfigRequestResource{{
				ResourceType: kafka.ResourceTypeTopic, ResourceName: a.Topic, ConfigNames: []string{"retention.ms"},
			}},
		})
		if err != nil {
			return nil, err
		}
		return found.Resources[0].ConfigEntries[0].ConfigValue, found.Resources[0].Error
	}
	partitions := func() (int, error) {
		found, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{a.Topic}})
		if err != nil {
			return 0, err
		}
		return len(found.Topics[0].Partitions), nil
	}
	all := []int{0, 1, 2}
	return program.Steps([]program.Step{
		{"cluster", func() (any, error) {
			found, err := client.Metadata(ctx, &kafka.MetadataRequest{})
			if err != nil {
				return nil, err
			}
			return len(found.Brokers), nil
		}},
		{"create", func() (any, error) {
			done, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{
				Topic: a.Topic, NumPartitions: 3, ReplicationFactor: 3,
				ConfigEntries: []kafka.ConfigEntry{{ConfigName: "retention.ms", ConfigValue: "123456"}},
			}}})
			if err != nil {
				return nil, err
			}
			return "ok", done.Errors[a.Topic]
		}},
		{"describe", func() (any, error) { return program.Soon(3, partitions) }},
		{"config", retention},
		{"alter", func() (any, error) {
			_, err := client.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
				Resources: []kafka.IncrementalAlterConfigsRequestResource{{
					ResourceType: kafka.ResourceTypeTopic, ResourceName: a.Topic,
					Configs: []kafka.IncrementalAlterConfigsRequestConfig{{
						Name: "retention.ms", Value: "654321", ConfigOperation: kafka.ConfigOperationSet,
					}},
				}},
			})
			answer, further := retention()
			return answer, errors.Join(err, further)
		}},
		{"grow", func() (any, error) {
			done, err := client.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{
				Topics: []kafka.TopicPartitionsConfig{{Name: a.Topic, Count: 5}},
			})
			if err != nil {
				return nil, err
			}
			if err = done.Errors[a.Topic]; err != nil {
				return nil, err
			}
			return program.Soon(5, partitions)
		}},
		{"groups", func() (any, error) {
			for _, broker := range a.Bootstrap { // each knows those that it coordinates
				found, err := client.ListGroups(ctx, &kafka.ListGroupsRequest{Addr: kafka.TCP(broker)})
				if err != nil {
					return nil, err
				}
				for _, group := range found.Groups {
					if group.GroupID == a.Group {
						return true, nil
					}
				}
			}
			return false, nil
		}},
		{"group", func() (any, error) {
			found, err := client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{a.Group}})
			if err != nil {
				return nil, err
			}
			return found.Groups[0].GroupState, found.Groups[0].Error
		}},
		{"offsets", func() (any, error) {
			found, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{
				GroupID: a.Group, Topics: map[string][]int{a.Data: all},
			})
			if err != nil {
				return nil, err
			}
			sum := int64(0)
			for _, partition := range found.Topics[a.Data] {
				sum += partition.CommittedOffset
			}
			return sum, found.Error
		}},
		{"ends", func() (any, error) {
			var asked []kafka.OffsetRequest
			for _, partition := range all {
				asked = append(asked, kafka.LastOffsetOf(partition))
			}
			found, err := client.ListOffsets(ctx, &kafka.ListOffsetsRequest{
				Topics: map[string][]kafka.OffsetRequest{a.Data: asked},
			})
			if err != nil {
				return nil, err
			}
			sum := int64(0)
			for _, partition := range found.Topics[a.Data] {
				sum += partition.LastOffset
			}
			return sum, nil
		}},
		{"delete-group", func() (any, error) {
			done, err := client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{a.Group}})
			if err != nil {
				return nil, err
			}
			return "ok", done.Errors[a.Group]
		}},
		{"delete", func() (any, error) {
			done, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{a.Topic}})
			if err != nil {
				return nil, err
			}
			return "ok", done.Errors[a.Topic]
		}},
	})
}
