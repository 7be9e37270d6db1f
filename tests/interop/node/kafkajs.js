// kafkajs against a cluster. It alters configurations only as a whole, and lz4 and zstd are not for it:
// their codecs are native modules that no longer build.
'use strict'

const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs')
const { main, soon, steps } = require('./program')

CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
const CODECS = { none: 'None', gzip: 'GZIP', snappy: 'Snappy' }
process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'

const kafka = (brokers) =>
  new Kafka({
    clientId: 'kafkajs',
    brokers,
    logLevel: logLevel.NOTHING,
    retry: { initialRetryTime: 50, maxRetryTime: 1000, retries: 30 },
  })

async function producer({ brokers, codec, idempotent }) {
  const made = kafka(brokers).producer({ idempotent, maxInFlightRequests: idempotent ? 1 : 5 })
  await made.connect()
  const compression = CompressionTypes[CODECS[codec]]
  return {
    send: (records) => made.send({ ...records, acks: -1, compression }),
    disconnect: () => made.disconnect(),
  }
}

async function consumer({ brokers, group, topic }) {
  const made = kafka(brokers).consumer({ groupId: group, sessionTimeout: 6000, heartbeatInterval: 500, maxWaitTimeInMs: 100 })
  made.on(made.events.CRASH, ({ payload }) => {
    if (payload.restart) return
    console.error(payload.error)
    process.exit(1)
  })
  await made.connect()
  await made.subscribe({ topic, fromBeginning: true })
  return made
}

async function admin({ brokers, topic, data, group }) {
  const made = kafka(brokers).admin()
  await made.connect()
  const resource = { type: ConfigResourceTypes.TOPIC, name: topic }
  const retention = async () => {
    const found = await made.describeConfigs({
      includeSynonyms: false,
      resources: [{ ...resource, configNames: ['retention.ms'] }],
    })
    return found.resources[0].configEntries[0].configValue
  }
  const partitions = async () =>
    (await made.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length
  await steps({
    cluster: async () => (await made.describeCluster()).brokers.length,
    create: async () => {
      const configEntries = [{ name: 'retention.ms', value: '123456' }]
      const wanted = { topic, numPartitions: 3, replicationFactor: 3, configEntries }
      return (await made.createTopics({ topics: [wanted] })) ? 'ok' : 'exists'
    },
    describe: () => soon(3, partitions),
    config: retention,
    alter: async () => {
      const configEntries = [{ name: 'retention.ms', value: '654321' }]
      await made.alterConfigs({ validateOnly: false, resources: [{ ...resource, configEntries }] })
      return retention()
    },
    grow: async () => {
      await made.createPartitions({ topicPartitions: [{ topic, count: 5 }] })
      return soon(5, partitions)
    },
    groups: async () => (await made.listGroups()).groups.some((found) => found.groupId === group),
    group: async () => (await made.describeGroups([group])).groups[0].state,
    offsets: async () => {
      const [found] = await made.fetchOffsets({ groupId: group, topics: [data] })
      return found.partitions.reduce((sum, { offset }) => sum + Number(offset), 0)
    },
    ends: async () =>
      (await made.fetchTopicOffsets(data)).reduce((sum, { high }) => sum + Number(high), 0),
    'delete-records': async () => {
      await made.deleteTopicRecords({ topic: data, partitions: [{ partition: 0, offset: '5' }] })
      return (await made.fetchTopicOffsets(data)).find(({ partition }) => partition === 0).low
    },
    'delete-group': async () => {
      const [done] = await made.deleteGroups([group])
      return done.errorCode ? done.error : 'ok'
    },
    delete: async () => {
      await made.deleteTopics({ topics: [topic] })
      return 'ok'
    },
  })
  await made.disconnect()
}

main({ version: require('kafkajs/package.json').version, producer, consumer, admin })
