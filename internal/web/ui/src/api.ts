// Made from the description of the operator API (OpenAPI); go test ./internal/api -run TestTypesOfTheUI -rewrite makes it again.

export interface Ack {
  at: number;
  by: string;
  note: string;
  until?: number;
}

export interface Acknowledge {
  kind: string;
  name: string;
  note: string;
  until?: number;
}

export interface Adopt {
  objects?: ObjectRef[] | null;
  reason?: string;
}

export interface Adoption {
  objects: NodeObject[] | null;
  since: number;
}

export interface Answer {
  accepted?: string[] | null;
  block?: Block;
  channel: string;
  current: string;
  degraded?: Degradation;
  former?: FormerName[] | null;
  gates: Gate[] | null;
  host: string;
  message: string;
  pending?: string;
  pendingBlock?: Block;
  pendingGates?: Gate[] | null;
  reboot?: RebootAnswer;
  repair?: RepairAnswer;
  rollout: string;
  status: string;
  target: string;
  turn?: Turn;
  wave: string;
  waveBlocks?: Block[] | null;
}

export interface AsOf {
  at: number;
  record: number;
}

export interface Behind {
  code: string;
  reason: string;
  rollout: string;
  since: number;
  target: string;
}

export interface Bin {
  more?: number;
  volumes: KeptVolume[] | null;
}

export interface Block {
  clearedBy: string;
  code: string;
  detail?: string;
  earliest: number;
  message: string;
  remedies?: GateRemedy[] | null;
  waitsFor: string;
}

export interface Bounds {
  devices?: boolean;
  hostMounts?: string[] | null;
  hostNamespaces?: boolean;
  images?: string[] | null;
  kinds?: string[] | null;
  maxMemory?: number;
  maxNanoCPUs?: number;
  maxPIDs?: number;
  maxStopGrace?: number;
  maxWorkspaces?: number;
  owners?: string[] | null;
  ports?: PortRange;
  privileged?: boolean;
  requireSigned?: boolean;
  routes?: RouteBounds;
  secrets?: string[] | null;
  subnets?: string[] | null;
}

export interface Budget {
  inFlight: number;
  max: number;
  selector: string;
}

export interface Chain {
  at: number;
  broken?: string;
  first: number;
  hash?: string;
  last: number;
  through: number;
}

export interface Changed {
  changed: boolean;
  nonce?: string;
  resource: number;
  version: number;
}

export interface ChannelState {
  deferral?: string;
  health?: Record<string, number>;
  name: string;
  quarantine?: QuarantineRow[] | null;
  queued?: string;
  rollout?: string;
  status?: string;
  summary: Summary;
}

export interface ContentRow {
  arrived?: number;
  digest: string;
  size: number;
}

export interface Contents {
  content: ContentRow[] | null;
}

export interface Conversion {
  config?: boolean;
  value?: unknown;
  yaml?: string;
}

export interface CreatedSession {
  decided: boolean;
  eventPath: string;
  eventToken: string;
  secrets?: SessionSecret[] | null;
  session: Session;
  waits?: SessionWait[] | null;
}

export interface Definition {
  legs: Leg[] | null;
  mode?: string;
  shared?: unknown;
}

export interface Degradation {
  bundle: boolean;
  more?: number;
  probes?: DegradedProbe[] | null;
  resources?: DegradedResource[] | null;
  since: number;
}

export interface DegradedHost {
  bundle: boolean;
  host: string;
  more?: number;
  probes?: DegradedProbe[] | null;
  resources?: DegradedResource[] | null;
  since: number;
}

export interface DegradedProbe {
  message?: string;
  probe: string;
}

export interface DegradedResource {
  message?: string;
  reason?: string;
  resource: string;
  state: string;
}

export interface Delegation {
  allow: string[] | null;
  bounds: Bounds;
  kinds: string[] | null;
}

export interface DeviceProblem {
  field?: string;
  message: string;
}

export interface Difference {
  cause: string;
  class?: string;
  desired?: string;
  field: string;
  observed?: string;
  why?: string;
}

export interface Elsewhere {
  bundle: string;
  channel: string;
  hosts: string[] | null;
  on: string;
  reason: string;
}

export interface Engine {
  api: string;
  arch?: string;
  cgroup?: number;
  containers: number;
  gpus?: GPUFacts;
  kernel?: string;
  name: string;
  os?: string;
  problem?: string;
  running: number;
  storage?: string;
  version: string;
}

export interface Enrolment {
  epoch: number;
  fleet: string;
  minVersions: Record<string, number>;
  root: string;
  rootDigest: string;
  serverCA: string;
}

export interface EpisodeDetail {
  acknowledged?: unknown;
  actions: string[] | null;
  actual?: unknown;
  changedAt: number;
  conflict?: boolean;
  decided?: boolean;
  desired?: unknown;
  drift: string;
  etag?: string;
  fields: number;
  id: string;
  kind: string;
  name?: string;
  node: string;
  objectId: string;
  openedAt: number;
  role?: string;
  summary: Summary;
  table: Field[] | null;
}

export interface EpisodeRow {
  actions: string[] | null;
  changedAt: number;
  conflict?: boolean;
  decided?: boolean;
  drift: string;
  fields: number;
  id: string;
  kind: string;
  name?: string;
  node: string;
  objectId: string;
  openedAt: number;
  role?: string;
  summary: Summary;
}

export interface ErrorDetail {
  location?: string;
  message?: string;
  value?: unknown;
}

export interface ErrorModel {
  detail?: string;
  errors?: ErrorDetail[] | null;
  instance?: string;
  status?: number;
  title?: string;
  type?: string;
}

export interface Estimate {
  earliest: number;
  hangs?: string;
  latest?: number;
  likely?: number;
}

export interface Event {
  at: number;
  body: unknown;
  hash?: string;
  hostSeq?: number;
  incarnation?: number;
  message?: string;
  received?: number;
  seq: number;
  subject?: Subject;
  term: number;
  type: string;
  whatIf?: ("delay" | "drop")[] | null;
}

export interface EventPage {
  earlier?: number;
  events: Event[] | null;
  next: number;
}

export interface ExtendSession {
  by?: number;
  end?: string;
}

export interface ExtendedSession {
  end: string;
}

export interface Field {
  acknowledged: string | null;
  actual: string | null;
  cause?: string;
  desired: string | null;
  field: string;
  ignored?: boolean;
  rule?: string;
  secret?: boolean;
}

export interface Fleet {
  cells: string;
  groups: Group[] | null;
  legend: StateCount[] | null;
  names: string[] | null;
}

export interface FleetHealth {
  degraded: DegradedHost[] | null;
  errors: Record<string, number>;
  hosts: Record<string, number>;
  status: string;
}

export interface Forecast {
  done: number;
  error?: string;
  found?: unknown;
  id: string;
  record: number;
  runs: number;
  start?: number;
  state: "queued" | "running" | "done" | "failed";
}

export interface FormerName {
  incarnation: number;
  name: string;
  until: number;
}

export interface Freeze {
  for: number;
  reason: string;
}

export interface Frozen {
  until: number;
}

export interface GPU {
  memory?: number;
  model: string;
  vendor: string;
}

export interface GPUFacts {
  cdi?: string[] | null;
  devices?: number;
  driver?: string;
  engineCDI?: boolean;
  hook?: boolean;
  runtime?: boolean;
  toolkit?: boolean;
}

export interface Gate {
  block?: Block;
  gate: string;
  rule?: string;
  state: string;
}

export interface GateRemedy {
  args?: string[] | null;
  command: string;
  operation?: string;
  wave?: string;
}

export interface Given {
  bundle: string;
  channel: string;
  hosts: string[] | null;
}

export interface Gives {
  given: Given[] | null;
}

export interface Group {
  channel: string;
  count: number;
  first: number;
  wave: string;
}

export interface Host {
  accepted?: number;
  agentVersion?: string;
  behind?: Behind;
  channel?: string;
  current?: string;
  degraded?: Degradation;
  failed?: string;
  forked?: boolean;
  frozenUntil?: number;
  frozenWhy?: string;
  grant?: string;
  health: string;
  identityStatus?: string;
  incarnation: number;
  name: string;
  online: boolean;
  owed?: Owed;
  phase: string;
  presence: string;
  removed?: Removal;
  renamedFrom?: string;
  rollout?: string;
  runs?: string;
  server?: string;
  since?: number;
  state: string;
  summary: Summary;
  tags?: string[] | null;
  target?: string;
}

export interface HostCounts {
  behind: Record<string, number>;
  enrolled: number;
  failed: number;
  inFlight: number;
  leaving?: Removal[] | null;
  neverEnrolled: string[] | null;
  online: number;
  presence: Record<string, number>;
  toEnrol: number;
  total: number;
  versions?: Record<string, number>;
}

export interface HostDetail {
  accepted?: number;
  agentVersion?: string;
  behind?: Behind;
  certExpires?: number;
  certSerial?: string;
  channel?: string;
  current?: string;
  degraded?: Degradation;
  facts?: HostFacts;
  failed?: string;
  forked?: boolean;
  frozenUntil?: number;
  frozenWhy?: string;
  grant?: string;
  health: string;
  identityStatus?: string;
  incarnation: number;
  lastSeen?: number;
  name: string;
  online: boolean;
  owed?: Owed;
  phase: string;
  presence: string;
  probes?: ProbeState[] | null;
  removed?: Removal;
  renamedFrom?: string;
  rollout?: string;
  runs?: string;
  seq: number;
  server?: string;
  since?: number;
  state: string;
  summary: Summary;
  tags?: string[] | null;
  target?: string;
  why: Answer;
}

export interface HostFacts {
  arch: string;
  cpus: number;
  disk?: number;
  engine?: string;
  engineApi?: string;
  gpus?: GPU[] | null;
  kernel?: string;
  memory: number;
  needsReboot?: string[] | null;
  os?: string;
}

export interface HostMetrics {
  agentVersion?: string;
  at: number;
  capabilities?: string[] | null;
  engine?: Engine;
  history?: Load[] | null;
  host: string;
  metrics?: unknown;
  runtimes?: string[] | null;
  uptime?: number;
}

export interface HostResource {
  attempts?: number;
  declared: boolean;
  differences?: Difference[] | null;
  host: string;
  kind: string;
  layer: string;
  message?: string;
  name: string;
  next?: boolean;
  nextAttempt?: number;
  owner?: string;
  phase?: string;
  reason?: string;
  since?: number;
  state?: string;
  verbs?: ResourceVerb[] | null;
  version?: number;
}

export interface HostResources {
  delegation?: Delegation;
  dropped?: number;
  host: string;
  resources: Resource[] | null;
  settings: HostSettings;
  version: number;
}

export interface HostSettings {
  enabled?: boolean;
  heartbeatInterval?: number;
  metrics: MetricsChoice;
  pools: Pools;
  resyncInterval?: number;
}

export interface IgnoreDrift {
  field?: string;
  kind?: string;
  name?: string;
  node?: string;
  reason: string;
  until?: number;
}

export interface Ignored {
  actor: string;
  at: number;
  field: string;
  kind?: string;
  name?: string;
  node_id?: string;
  reason: string;
  rule: string;
  until?: number;
}

export interface Inbox {
  items: InboxItem[] | null;
  needed: number;
}

export interface InboxItem {
  ack?: Ack;
  cause?: string;
  kind: string;
  level: string;
  name: string;
  next?: Remedy[] | null;
  reason?: string;
  since?: number;
  who?: string;
  word: string;
}

export interface Inconsistency {
  field: string;
  values: Record<string, string>;
}

export interface Item {
  ends?: number;
  hosts?: number;
  kind: string;
  level: string;
  limit?: number;
  message?: string;
  name?: string;
  next?: string;
  used?: number;
}

export interface KeptVolume {
  host: string;
  id: string;
  pod: string;
  session: string;
  since: string;
  until: string;
  volume: string;
}

export interface Kind {
  modes: Mode[] | null;
  name: string;
  roles: string[] | null;
}

export interface KindRow {
  command: string;
  modes: Mode[] | null;
  name: string;
  nodes: number;
  objects: number;
  roles: string[] | null;
}

export interface LeftOutHost {
  code: string;
  host: string;
  message: string;
}

export interface Leg {
  config: unknown;
  id?: string;
  node: string;
  role: string;
}

export interface LegPreview {
  checked?: boolean;
  fields: Field[] | null;
  node: string;
  problems?: DeviceProblem[] | null;
  role: string;
  unasked?: string;
  wait?: Wait;
}

export interface LegRow {
  attempts?: number;
  code?: string;
  decided?: boolean;
  detail?: string;
  drift?: string;
  effect?: string;
  episode?: string;
  error?: string;
  failedSince?: number;
  id: string;
  kind: string;
  name: string;
  node: string;
  pushedAt?: number;
  removed?: boolean;
  role: string;
  status: string;
  summary: Summary;
  version?: number;
  wait?: Wait;
}

export interface Load {
  at: number;
  cpu: number | null;
  memory: number | null;
}

export interface LoginLink {
  code: string;
  expires: number;
}

export interface MadeToken {
  createdAt?: number;
  expires?: number;
  id: string;
  lastUsed?: number;
  name: string;
  parent?: string;
  role: string;
  secret: string;
}

export interface ManagedResource {
  actor: string;
  kind: string;
  name: string;
  nonce?: string;
  notAfter?: number;
  owner?: string;
  reason?: string;
  setAt: number;
  signed: boolean;
  spec: unknown;
  verb?: string;
  version?: number;
}

export interface Mark {
  at: number;
  seq: number;
  subject?: Subject;
  type: string;
}

export interface Me {
  allowed: string[] | null;
  expires: number;
  login: boolean;
  name: string;
  role: string;
}

export interface Meaning {
  means: string;
  next?: string;
  word: string;
}

export interface Member {
  frozenUntil?: number;
  health: string;
  host: string;
  moreUnready?: number;
  online: boolean;
  presence: string;
  progress?: Progress;
  skipped?: boolean;
  state: string;
  status: string;
  unready?: DegradedResource[] | null;
  wave: number;
}

export interface MetricsChoice {
  gpu?: boolean;
  host?: boolean;
  workspaces?: boolean;
}

export interface Mode {
  name: string;
  roles: string[] | null;
}

export interface NewForecast {
  failure?: number;
  offline?: number;
  record?: number;
  release?: string;
  rollout?: string;
  runs?: number;
  seed?: number;
  start?: number;
  times?: number;
}

export interface NewLogin {
  code?: string;
  token?: string;
}

export interface NewOverride {
  signed: unknown;
}

export interface NewRerun {
  budget?: string[] | null;
  delay?: string[] | null;
  drop?: number[] | null;
  from?: number;
  policy?: string[] | null;
  record?: number;
  seed?: number;
}

export interface NewSession {
  calls?: string[] | null;
  onFailure?: string;
  parameters?: Record<string, unknown>;
  parts?: SessionPart[] | null;
  template?: string;
  timeslot: SessionTimeslot;
}

export interface NewToken {
  life?: number;
  name: string;
  role: "viewer" | "operator" | "releaser" | "admin";
}

export interface NodeCollection {
  ignored?: string[] | null;
  kind: string;
  ports?: string[] | null;
  secrets?: string[] | null;
  sets?: Record<string, string>;
}

export interface NodeDetail {
  adoption?: Adoption;
  collections: NodeCollection[] | null;
  comparedAt?: number;
  conflicts: number;
  drift: Record<string, number>;
  driver?: string;
  episodes: EpisodeRow[] | null;
  instance?: string;
  legs: Record<string, number>;
  machine?: string;
  name: string;
  needs: string[] | null;
  objects: LegRow[] | null;
  paused?: Pause;
  placed?: string;
  problem?: string;
  registeredAt: number;
  reported: number;
  session: number;
  since?: number;
  status: string;
  summary: Summary;
  toAdopt: number;
  version?: string;
  why?: string;
}

export interface NodeObject {
  config: unknown;
  etag: string;
  id: string;
  kind: string;
}

export interface NodeRow {
  comparedAt?: number;
  conflicts: number;
  drift: Record<string, number>;
  driver?: string;
  legs: Record<string, number>;
  name: string;
  needs: string[] | null;
  problem?: string;
  since?: number;
  status: string;
  summary: Summary;
  toAdopt: number;
  version?: string;
  why?: string;
}

export interface NodeVerbInBody {
  reason?: string;
}

export interface ObjectDetail {
  changedAt: number;
  definition: Definition;
  history: Revision[] | null;
  inBin?: boolean;
  inconsistent: Inconsistency[] | null;
  kind: string;
  legs: LegRow[] | null;
  local?: boolean;
  mode?: string;
  name: string;
  ports?: string[] | null;
  removed?: boolean;
  respelt: Respelling[] | null;
  status: string;
  summary: Summary;
  version: number;
}

export interface ObjectPreview {
  definition: Definition;
  legs: LegPreview[] | null;
  new: boolean;
  ports: string[] | null;
}

export interface ObjectRef {
  id: string;
  kind: string;
}

export interface ObjectRow {
  changedAt: number;
  inBin?: boolean;
  kind: string;
  legs: LegRow[] | null;
  local?: boolean;
  mode?: string;
  name: string;
  removed?: boolean;
  status: string;
  summary: Summary;
  version: number;
}

export interface ObjectSet {
  changedAt: number;
  definition: Definition;
  history: Revision[] | null;
  inBin?: boolean;
  inconsistent: Inconsistency[] | null;
  kind: string;
  legs: LegRow[] | null;
  local?: boolean;
  mode?: string;
  name: string;
  ports?: string[] | null;
  removed?: boolean;
  requested?: number;
  respelt: Respelling[] | null;
  status: string;
  summary: Summary;
  unchanged?: boolean;
  version: number;
}

export interface Opening {
  channel: string;
  failed?: Elsewhere[] | null;
  rollout: string;
}

export interface Outcome {
  episode: string;
  error?: string;
  resolution?: string;
  what: string;
}

export interface Override {
  _type: string;
  action: string;
  bundle?: string;
  channel: string;
  critical?: string[] | null;
  digest: string;
  envelope?: string;
  epoch: number;
  fleet: string;
  host?: string;
  id: string;
  incarnation?: number;
  issuedAt: number;
  manifest?: string;
  notAfter: number;
  reason: string;
  restricts: boolean;
  rollout?: string;
  signed?: unknown;
  version: number;
  wave?: string;
  workloads?: string;
}

export interface OverridePushed {
  _type: string;
  action: string;
  bundle?: string;
  channel: string;
  critical?: string[] | null;
  digest: string;
  envelope?: string;
  epoch: number;
  fleet: string;
  host?: string;
  id: string;
  incarnation?: number;
  issuedAt: number;
  manifest?: string;
  news: boolean;
  notAfter: number;
  reason: string;
  restricts: boolean;
  rollout?: string;
  signed?: unknown;
  version: number;
  wave?: string;
  workloads?: string;
}

export interface Owed {
  acknowledged: number;
  host: string;
  logged: number;
}

export interface OwnerQuota {
  calls?: string[] | null;
  gpus?: number;
  length?: number;
  memory?: number;
  milliCPU?: number;
  owner: string;
  pods?: number;
  sessions?: number;
  version: number;
}

export interface PageEpisodeRow {
  items: EpisodeRow[] | null;
  offset: number;
  total: number;
}

export interface PageHost {
  items: Host[] | null;
  offset: number;
  total: number;
}

export interface PageHostResource {
  items: HostResource[] | null;
  offset: number;
  total: number;
}

export interface PageNodeRow {
  items: NodeRow[] | null;
  offset: number;
  total: number;
}

export interface PageObjectRow {
  items: ObjectRow[] | null;
  offset: number;
  total: number;
}

export interface PageSession {
  items: Session[] | null;
  offset: number;
  total: number;
}

export interface Pause {
  code: string;
  detail: string;
  since: number;
}

export interface Place {
  at: number;
  seq: number;
}

export interface PlaceNode {
  machine?: string;
  reason?: string;
}

export interface PlacedPod {
  feasible: number;
  gpus?: number[] | null;
  host?: string;
  leftOut?: LeftOutHost[] | null;
  message: string;
  pod: string;
}

export interface PlanAnswer {
  does: string;
  fields: PlanField[] | null;
  resource: string;
  why?: string;
}

export interface PlanField {
  cause?: string;
  class: string;
  desired?: string;
  field: string;
  observed?: string;
  why?: string;
}

export interface PlanRequest {
  kind: "image" | "network" | "route" | "snapshot" | "volume" | "workspace";
  name: string;
  spec?: unknown;
}

export interface Pools {
  builds?: number;
  pulls?: number;
  starts?: number;
}

export interface PortRange {
  from: number;
  to: number;
}

export interface ProbeState {
  evidence?: boolean;
  failing?: string[] | null;
  failingSince?: number;
  mode: string;
  name: string;
  passing: boolean;
  reason?: string;
  seen: boolean;
}

export interface Progress {
  phase: string;
  probes?: ProbeState[] | null;
  soak?: number;
  soakFrom?: number;
  sustainedFailure: number;
}

export interface Promotion {
  reason: string;
  wave: string;
}

export interface PushNow {
  dryRun?: boolean;
  reason?: string;
}

export interface PushOutcome {
  kind: string;
  message: string;
  name: string;
  next?: string;
  node: string;
  now: boolean;
  role: string;
}

export interface PutTemplate {
  document: string;
  version?: number;
}

export interface QuarantineRow {
  bundle: string;
  channel: string;
  reason: string;
}

export interface RebootAnswer {
  block?: Block;
  component: string;
  gates?: Gate[] | null;
  grant?: string;
  message: string;
}

export interface Reference {
  drift: Meaning[] | null;
  eventTypes: string[] | null;
  gates: Meaning[] | null;
  health: Meaning[] | null;
  hosts: Meaning[] | null;
  kinds: Kind[] | null;
  legs: Meaning[] | null;
  members: Meaning[] | null;
  nodes: Meaning[] | null;
  parts: Meaning[] | null;
  phases: Meaning[] | null;
  policyFields: string[] | null;
  presences: Meaning[] | null;
  remedies: RemedyCommand[] | null;
  resources: Meaning[] | null;
  rollouts: Meaning[] | null;
  sessions: Meaning[] | null;
  waves: Meaning[] | null;
}

export interface Refusing {
  bundle: string;
  channel: string;
  hosts: string[] | null;
  next: string;
  reason: string;
}

export interface ReleaseInfo {
  acceptedAt: number;
  ref: string;
  resolved?: string;
  rootVersion: number;
  timestampAt: number;
  version: number;
}

export interface Remedy {
  args?: string[] | null;
  verb: string;
}

export interface RemedyCommand {
  command: string;
  operation?: string;
  verb: string;
}

export interface Removal {
  detail?: string;
  done: boolean;
  host: string;
  signed?: string;
  workloads: string;
}

export interface RepairAnswer {
  block?: Block;
  gates?: Gate[] | null;
  grant?: string;
  message: string;
  more?: number;
  reason: string;
  reboot?: string;
  resources: string[] | null;
}

export interface RequestInBody {
  reason?: string;
}

export interface Resolution {
  action: string;
  actor: string;
  actual?: unknown;
  at: number;
  before?: Definition;
  document_id?: string;
  drift: string;
  episode: string;
  etag?: string;
  fields?: string[] | null;
  flow_id?: string;
  id: string;
  kind?: string;
  leg?: string;
  local?: boolean;
  name: string;
  node_id: string;
  object_id?: string;
  reason: string;
  resolution: string;
  tunnel_id?: string;
  undone?: boolean;
}

export interface ResolveDrift {
  action: "repush" | "ingest" | "delete-node" | "delete-server";
  as?: string;
  etag?: string;
  fields?: string[] | null;
  reason?: string;
}

export interface ResolveMany {
  action: "repush" | "ingest" | "delete-node" | "delete-server";
  drift?: string;
  dryRun?: boolean;
  episodes?: string[] | null;
  kind?: string;
  name?: string;
  node?: string;
  reason?: string;
}

export interface Resource {
  attempts?: number;
  declared: boolean;
  differences?: Difference[] | null;
  kind: string;
  layer: string;
  message?: string;
  name: string;
  next?: boolean;
  nextAttempt?: number;
  owner?: string;
  phase?: string;
  reason?: string;
  since?: number;
  state?: string;
  verbs?: ResourceVerb[] | null;
  version?: number;
}

export interface ResourceVerb {
  message?: string;
  possible: boolean;
  verb: string;
}

export interface Respelling {
  actual?: string;
  field: string;
  node: string;
  requested: string;
  role: string;
}

export interface RestoreWait {
  owed: Owed[] | null;
  unheard: string[] | null;
  unheardUntil?: number;
  until?: number;
}

export interface Resume {
  push?: boolean;
  reason?: string;
}

export interface Retried {
  hosts?: string[] | null;
  override?: string;
  refusing?: string[] | null;
  rollout: string;
  waveName: string;
}

export interface RetryRequest {
  reason: string;
  resource?: string;
}

export interface Revision {
  actor: string;
  at: number;
  definition: Definition;
  origin: string;
  reason: string;
  version: number;
}

export interface Rollout {
  behind?: string;
  blocked?: string;
  channel: string;
  endedAt?: number;
  manifest: string;
  name: string;
  openedAt: number;
  phase: string;
  queuedAt?: number;
  reason?: string;
  ref: string;
  status: string;
  step?: Step;
  summary: Summary;
}

export interface RolloutDetail {
  asOf?: AsOf;
  behind?: string;
  blocked?: string;
  budgets?: Budget[] | null;
  cancelOpens?: Opening[] | null;
  channel: string;
  endedAt?: number;
  gates?: Gate[] | null;
  manifest: string;
  members: Member[] | null;
  name: string;
  next?: Upcoming[] | null;
  now: number;
  openedAt: number;
  phase: string;
  queuedAt?: number;
  reason?: string;
  ref: string;
  status: string;
  step?: Step;
  summary: Summary;
  verbs?: VerbState[] | null;
  waveBlocks?: Block[] | null;
  waves: Wave[] | null;
}

export interface RootInfo {
  epoch: number;
  expires: number;
  version: number;
}

export interface Roots {
  roots: string[] | null;
}

export interface RootsPushed {
  accepted: number;
  epoch: number;
  next?: string;
  releaseValid: boolean;
  version: number;
}

export interface RouteBounds {
  certificates?: string[] | null;
  hosts?: string[] | null;
}

export interface Schema {
  additionalProperties?: unknown;
  description?: string;
  enum?: string[] | null;
  examples?: unknown[] | null;
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[] | null;
  title?: string;
  type: string;
  "x-order"?: string[] | null;
  "x-verbs"?: string[] | null;
}

export interface Selector {
  all?: boolean;
  and?: Selector[] | null;
  channel?: string;
  hosts?: string[] | null;
  not?: Selector;
  tags?: string[] | null;
  tagsAny?: string[] | null;
}

export interface Server {
  lastBackup: number;
  problems: ServerProblem[] | null;
  startedAt: number;
  term: number;
  version: string;
}

export interface ServerProblem {
  check: string;
  message: string;
  next: string;
}

export interface Session {
  alert?: boolean;
  created?: string;
  generation: number;
  name: string;
  owner: string;
  parts: SessionPartStatus[] | null;
  reason?: string;
  state: string;
  summary: Summary;
  timeslot: SessionTimeslot;
}

export interface SessionCall {
  body?: unknown;
  method?: string;
  url: string;
}

export interface SessionCommand {
  argv: string[] | null;
  pod: string;
  workspace: string;
}

export interface SessionEvents {
  eventPath: string;
  eventToken: string;
}

export interface SessionGPURequest {
  count?: number;
  memory?: number;
  model?: string;
  vendor?: string;
}

export interface SessionGate {
  at?: string;
  event?: string;
  part?: string;
  phase?: string;
}

export interface SessionJobStatus {
  attempts?: number;
  mostAttempts: number;
  name: string;
  reason?: string;
  result?: unknown;
  state: string;
  summary: Summary;
}

export interface SessionParameter {
  choices?: unknown[] | null;
  default?: unknown;
  description?: string;
  max?: number;
  min?: number;
  name: string;
  pattern?: string;
  type: string;
}

export interface SessionPart {
  after?: SessionGate[] | null;
  duplicates?: string;
  late?: boolean;
  moves?: boolean;
  name: string;
  onFailure?: string;
  phases?: SessionPhase[] | null;
  pods?: SessionPod[] | null;
  stopped?: boolean;
}

export interface SessionPartStatus {
  name: string;
  phase: string;
  phases?: SessionJobStatus[] | null;
  pods?: SessionPodStatus[] | null;
  reason?: string;
  stopped?: boolean;
  summary: Summary;
}

export interface SessionPhase {
  attempts?: number;
  await?: string;
  call?: SessionCall;
  command?: SessionCommand;
  name: string;
  retries?: number;
  timeout?: number;
}

export interface SessionPod {
  antiAffinity?: string[] | null;
  arch?: string;
  gpu?: SessionGPURequest;
  name: string;
  resources?: SessionResources;
  secrets?: string[] | null;
  selector?: Selector;
  spread?: SessionSpread;
  workloads: SessionWorkload[] | null;
}

export interface SessionPodStatus {
  attempts?: number;
  gpus?: number[] | null;
  host?: string;
  name: string;
  phase: string;
  reason?: string;
  room?: string;
  summary: Summary;
  urls?: string[] | null;
  workloads: string[] | null;
}

export interface SessionPreview {
  fits: boolean;
  pods: PlacedPod[] | null;
  room?: string;
}

export interface SessionResources {
  memory?: number;
  milliCPU?: number;
}

export interface SessionSecret {
  name: string;
  pod: string;
  value: string;
}

export interface SessionSpread {
  tags?: string[] | null;
}

export interface SessionTemplate {
  description?: string;
  document?: string;
  name: string;
  owner: string;
  parameters: SessionParameter[] | null;
  updated: string;
  version: number;
}

export interface SessionTimeslot {
  cleanupDeadline: string;
  end: string;
  provisionAt: string;
  start: string;
}

export interface SessionWait {
  pod: string;
  reason: string;
  room?: string;
}

export interface SessionWorkload {
  kind: string;
  name: string;
  spec: unknown;
}

export interface SetObject {
  allowPortConflict?: boolean;
  create?: boolean;
  legs: Leg[] | null;
  mode?: string;
  reason?: string;
  shared?: unknown;
  version?: number;
}

export interface SetQuota {
  calls?: string[] | null;
  gpus?: number;
  length?: number;
  memory?: number;
  milliCPU?: number;
  only?: string[] | null;
  pods?: number;
  sessions?: number;
  version?: number;
}

export interface SetResource {
  create?: boolean;
  envelope?: unknown;
  notAfter?: number;
  reason?: string;
  spec: unknown;
  version?: number;
}

export interface SettingsPatch {
  builds?: number;
  enabled?: boolean;
  gpuMetrics?: boolean;
  heartbeatInterval?: number;
  hostMetrics?: boolean;
  pulls?: number;
  reason: string;
  resyncInterval?: number;
  starts?: number;
  workspaceMetrics?: boolean;
}

export interface Source {
  lastError?: string;
  lastLook?: number;
  lastSuccess?: number;
  name: string;
  ref?: string;
  refused?: SourceTrouble;
  summary: Summary;
  unfetched?: SourceTrouble;
  version?: number;
}

export interface SourceTrouble {
  cause: string;
  detail: string;
  since: number;
}

export interface StateCount {
  code: string;
  count: number;
  state: string;
}

export interface Status {
  channels: ChannelState[] | null;
  expiries: Item[] | null;
  fleet: string;
  health: FleetHealth;
  hosts: HostCounts;
  inbox: Inbox;
  nodes: Record<string, number>;
  now: number;
  release: ReleaseInfo;
  root: RootInfo;
  safeMode?: string;
  seq: number;
  sessions: Record<string, number>;
  sources?: Source[] | null;
  term: number;
  version?: string;
}

export interface Step {
  block?: Block;
  comes: Estimate;
  ends: Estimate;
  message: string;
  wave?: string;
}

export interface Subject {
  kind: string;
  name: string;
}

export interface Summary {
  level: string;
  next?: Remedy[] | null;
  reason?: string;
  since?: number;
  who?: string;
  word: string;
}

export interface Timeline {
  first: Place;
  last: Place;
  marks: Mark[] | null;
  through: number;
}

export interface Token {
  createdAt?: number;
  expires?: number;
  id: string;
  lastUsed?: number;
  name: string;
  parent?: string;
  role: string;
}

export interface TokenRevocation {
  force?: boolean;
}

export interface Topics {
  topics: string[] | null;
}

export interface Turn {
  earliest: number;
  hangs?: string;
  latest?: number;
  likely?: number;
  message: string;
}

export interface Upcoming {
  block?: Block;
  host: string;
  turn?: Turn;
  wave: string;
}

export interface Verb {
  reason: string;
}

export interface VerbState {
  message?: string;
  possible: boolean;
  verb: string;
}

export interface Wait {
  code: string;
  message: string;
  next?: string;
  until?: number;
}

export interface Wave {
  counts: Record<string, number>;
  failures: number;
  hosts: number;
  name: string;
  offline: number;
  open: boolean;
  soak: number;
  state: string;
  states: Record<string, number>;
  summary: Summary;
}

// Answers are what each operation answers, by its id.
export interface Answers {
  "acknowledge": void;
  "add-quarantine": void;
  "adopt-objects": Outcome[] | null;
  "ask-resource": Changed;
  "clear-quarantine": void;
  "convert-yaml": Conversion;
  "create-forecast": Forecast;
  "create-login-link": LoginLink;
  "create-rerun": Forecast;
  "create-session": CreatedSession;
  "create-token": MadeToken;
  "decommission-host": void;
  "discard-kept-volume": void;
  "end-safe-mode": RestoreWait;
  "enrolment": Enrolment;
  "extend-session": ExtendedSession;
  "foresee-release": Refusing[] | null;
  "freeze-host": Frozen;
  "get-forecast": Forecast;
  "health": unknown;
  "history-chain": Chain;
  "history-marks": Timeline;
  "hook-release": unknown;
  "host-metrics": HostMetrics;
  "host-orphans": unknown;
  "host-prune": unknown;
  "ignore-drift": Ignored;
  "image-output": unknown;
  "list-attention": Inbox;
  "list-drift": EpisodeRow[] | null;
  "list-events": EventPage;
  "list-hosts": Host[] | null;
  "list-ignored": Ignored[] | null;
  "list-kept-volumes": Bin;
  "list-kinds": KindRow[] | null;
  "list-missing-content": Contents;
  "list-nodes": NodeRow[] | null;
  "list-objects": ObjectRow[] | null;
  "list-overrides": Override[] | null;
  "list-quarantine": QuarantineRow[] | null;
  "list-quotas": OwnerQuota[] | null;
  "list-resolutions": Resolution[] | null;
  "list-resources": HostResources;
  "list-rollouts": Rollout[] | null;
  "list-sessions": Session[] | null;
  "list-sources": Source[] | null;
  "list-templates": SessionTemplate[] | null;
  "list-tokens": Token[] | null;
  "log-in": void;
  "log-out": void;
  "me": Me;
  "metrics": unknown;
  "newest-release": unknown;
  "openapi": unknown;
  "operate-node": void;
  "operate-part": void;
  "operate-rollout": void;
  "operate-session": void;
  "page-all-objects": PageObjectRow;
  "page-drift": PageEpisodeRow;
  "page-hosts": PageHost;
  "page-nodes": PageNodeRow;
  "page-objects": PageObjectRow;
  "page-resources": PageHostResource;
  "page-sessions": PageSession;
  "place-node": void;
  "plan-resource": PlanAnswer;
  "preview-object": ObjectPreview;
  "preview-session": SessionPreview;
  "promote-wave": void;
  "push-node": PushOutcome[] | null;
  "push-object": PushOutcome[] | null;
  "push-override": OverridePushed;
  "push-release": unknown;
  "push-roots": RootsPushed;
  "put-template": void;
  "read-history": unknown;
  "readiness": unknown;
  "receive-event": unknown;
  "reconcile": void;
  "reference": Reference;
  "remove-object": void;
  "remove-resource": void;
  "remove-template": void;
  "resolve-drift": Outcome;
  "resolve-many": Outcome[] | null;
  "restore-object": void;
  "resume-node": void;
  "retire-node": void;
  "retry-host": void;
  "retry-phase": void;
  "retry-rollout": Retried;
  "revoke-host": void;
  "revoke-token": void;
  "safe-mode": RestoreWait;
  "send-content": unknown;
  "session-token": SessionEvents;
  "set-object": ObjectSet;
  "set-quota": void;
  "set-resource": Changed;
  "set-topics": void;
  "show-drift": EpisodeDetail;
  "show-fleet": Fleet;
  "show-host": HostDetail;
  "show-node": NodeDetail;
  "show-object": ObjectDetail;
  "show-override": Override;
  "show-resource": ManagedResource;
  "show-rollout": RolloutDetail;
  "show-schema": Schema;
  "show-server": Server;
  "show-session": Session;
  "show-template": SessionTemplate;
  "status": Status;
  "stream-events": unknown;
  "stream-topics": unknown;
  "tune-host": HostSettings;
  "undo-resolution": void;
  "unfreeze-host": void;
  "unignore-drift": void;
  "why-host": Answer;
  "workspace-exec": unknown;
  "workspace-logs": unknown;
  "workspace-terminal": unknown;
}

// Route is an operation: method, path, whether it answers about records of the past, and, of verbs on
// hosts and rollouts, what it is for.
export type Route = readonly [method: string, path: string, past?: boolean, purpose?: string];

// routes are the operations by their id.
export const routes: Record<keyof Answers, Route> = {
  "acknowledge": ["POST", "/v1/operator/attention/ack"],
  "add-quarantine": ["POST", "/v1/operator/quarantine/{channel}/{bundle}/add"],
  "adopt-objects": ["POST", "/v1/operator/nodes/{node}/adopt"],
  "ask-resource": ["POST", "/v1/operator/hosts/{host}/{kind}/{name}/{verb}", false, "Ask once for something of a resource"],
  "clear-quarantine": ["POST", "/v1/operator/quarantine/{channel}/{bundle}/clear"],
  "convert-yaml": ["POST", "/v1/operator/yaml"],
  "create-forecast": ["POST", "/v1/operator/forecasts"],
  "create-login-link": ["POST", "/v1/operator/login-links"],
  "create-rerun": ["POST", "/v1/operator/reruns"],
  "create-session": ["POST", "/v1/operator/sessions/{name}"],
  "create-token": ["POST", "/v1/operator/tokens"],
  "decommission-host": ["POST", "/v1/operator/hosts/{host}/decommission", false, "Revoke a host and retire it"],
  "discard-kept-volume": ["POST", "/v1/operator/hosts/{host}/bin/{volume}/discard", false, "Remove a kept volume now, with its data"],
  "end-safe-mode": ["POST", "/v1/operator/safe-mode/end"],
  "enrolment": ["GET", "/v1/operator/enrolment"],
  "extend-session": ["POST", "/v1/operator/sessions/{name}/extend"],
  "foresee-release": ["POST", "/v1/operator/releases/foresee"],
  "freeze-host": ["POST", "/v1/operator/hosts/{host}/freeze", false, "Give a host no grants for a while"],
  "get-forecast": ["GET", "/v1/operator/forecasts/{id}"],
  "health": ["GET", "/healthz"],
  "history-chain": ["GET", "/v1/operator/history/chain"],
  "history-marks": ["GET", "/v1/operator/history/marks"],
  "hook-release": ["POST", "/v1/hooks/release"],
  "host-metrics": ["GET", "/v1/operator/hosts/{host}/metrics", true],
  "host-orphans": ["GET", "/v1/operator/hosts/{host}/orphans"],
  "host-prune": ["POST", "/v1/operator/hosts/{host}/prune", false, "Remove what carries the host's labels and nobody declares, in frames"],
  "ignore-drift": ["POST", "/v1/operator/drift-ignored"],
  "image-output": ["GET", "/v1/operator/hosts/{host}/image/{name}/output"],
  "list-attention": ["GET", "/v1/operator/attention", true],
  "list-drift": ["GET", "/v1/operator/drift", true],
  "list-events": ["GET", "/v1/operator/events", true],
  "list-hosts": ["GET", "/v1/operator/hosts"],
  "list-ignored": ["GET", "/v1/operator/drift-ignored", true],
  "list-kept-volumes": ["GET", "/v1/operator/bin"],
  "list-kinds": ["GET", "/v1/operator/object-kinds", true],
  "list-missing-content": ["POST", "/v1/operator/content/missing"],
  "list-nodes": ["GET", "/v1/operator/nodes", true],
  "list-objects": ["GET", "/v1/operator/config/{kind}", true],
  "list-overrides": ["GET", "/v1/operator/overrides"],
  "list-quarantine": ["GET", "/v1/operator/quarantine"],
  "list-quotas": ["GET", "/v1/operator/session-quotas"],
  "list-resolutions": ["GET", "/v1/operator/drift-resolutions", true],
  "list-resources": ["GET", "/v1/operator/hosts/{host}/resources", true],
  "list-rollouts": ["GET", "/v1/operator/rollouts", true],
  "list-sessions": ["GET", "/v1/operator/sessions"],
  "list-sources": ["GET", "/v1/operator/sources"],
  "list-templates": ["GET", "/v1/operator/session-templates"],
  "list-tokens": ["GET", "/v1/operator/tokens"],
  "log-in": ["POST", "/v1/operator/logins"],
  "log-out": ["DELETE", "/v1/operator/logins"],
  "me": ["GET", "/v1/operator/me"],
  "metrics": ["GET", "/metrics"],
  "newest-release": ["GET", "/v1/operator/releases/newest"],
  "openapi": ["GET", "/v1/operator/openapi.json"],
  "operate-node": ["POST", "/v1/operator/nodes/{node}/{verb}"],
  "operate-part": ["POST", "/v1/operator/sessions/{name}/parts/{part}/{verb}"],
  "operate-rollout": ["POST", "/v1/operator/rollouts/{rollout}/{verb}", false, "Pause, resume or cancel a rollout"],
  "operate-session": ["POST", "/v1/operator/sessions/{name}/{verb}"],
  "page-all-objects": ["GET", "/v1/operator/object-list", true],
  "page-drift": ["GET", "/v1/operator/drift-list", true],
  "page-hosts": ["GET", "/v1/operator/host-list", true],
  "page-nodes": ["GET", "/v1/operator/node-list", true],
  "page-objects": ["GET", "/v1/operator/config-list/{kind}", true],
  "page-resources": ["GET", "/v1/operator/resource-list"],
  "page-sessions": ["GET", "/v1/operator/session-list"],
  "place-node": ["POST", "/v1/operator/nodes/{node}/machine"],
  "plan-resource": ["POST", "/v1/operator/hosts/{host}/plan", false, "Ask a host what setting a resource would do"],
  "preview-object": ["POST", "/v1/operator/config/{kind}/{name}/preview"],
  "preview-session": ["POST", "/v1/operator/sessions/{name}/preview"],
  "promote-wave": ["POST", "/v1/operator/rollouts/{rollout}/promote", false, "Open the next wave of a rollout although a gate blocks it"],
  "push-node": ["POST", "/v1/operator/nodes/{node}/push"],
  "push-object": ["POST", "/v1/operator/config/{kind}/{name}/push"],
  "push-override": ["POST", "/v1/operator/overrides"],
  "push-release": ["POST", "/v1/operator/releases"],
  "push-roots": ["POST", "/v1/operator/roots"],
  "put-template": ["POST", "/v1/operator/session-templates/{name}"],
  "read-history": ["GET", "/v1/operator/history"],
  "readiness": ["GET", "/readyz"],
  "receive-event": ["POST", "/v1/sessions/{name}/events"],
  "reconcile": ["POST", "/v1/operator/reconcile"],
  "reference": ["GET", "/v1/operator/reference"],
  "remove-object": ["DELETE", "/v1/operator/config/{kind}/{name}"],
  "remove-resource": ["DELETE", "/v1/operator/hosts/{host}/{kind}/{name}"],
  "remove-template": ["POST", "/v1/operator/session-templates/{name}/remove"],
  "resolve-drift": ["POST", "/v1/operator/drift/{id}/resolve"],
  "resolve-many": ["POST", "/v1/operator/drift-resolutions"],
  "restore-object": ["POST", "/v1/operator/config/{kind}/{name}/restore"],
  "resume-node": ["POST", "/v1/operator/nodes/{node}/resume"],
  "retire-node": ["POST", "/v1/operator/nodes/{node}/retire"],
  "retry-host": ["POST", "/v1/operator/hosts/{host}/retry", false, "Have a host try again what it gave up"],
  "retry-phase": ["POST", "/v1/operator/sessions/{name}/phases/{part}/{phase}/retry"],
  "retry-rollout": ["POST", "/v1/operator/rollouts/{rollout}/retry", false, "Try a rollout again that failed for a cause outside of it"],
  "revoke-host": ["POST", "/v1/operator/hosts/{host}/revoke", false, "End the certificates of a host"],
  "revoke-token": ["POST", "/v1/operator/tokens/{id}/revoke"],
  "safe-mode": ["GET", "/v1/operator/safe-mode"],
  "send-content": ["PUT", "/v1/operator/content/{digest}"],
  "session-token": ["POST", "/v1/operator/sessions/{name}/token"],
  "set-object": ["PUT", "/v1/operator/config/{kind}/{name}"],
  "set-quota": ["POST", "/v1/operator/session-quotas/{owner}"],
  "set-resource": ["PUT", "/v1/operator/hosts/{host}/{kind}/{name}"],
  "set-topics": ["POST", "/v1/operator/stream/{id}"],
  "show-drift": ["GET", "/v1/operator/drift/{id}", true],
  "show-fleet": ["GET", "/v1/operator/fleet", true],
  "show-host": ["GET", "/v1/operator/hosts/{host}", true],
  "show-node": ["GET", "/v1/operator/nodes/{node}", true],
  "show-object": ["GET", "/v1/operator/config/{kind}/{name}", true],
  "show-override": ["GET", "/v1/operator/overrides/{id}"],
  "show-resource": ["GET", "/v1/operator/hosts/{host}/{kind}/{name}"],
  "show-rollout": ["GET", "/v1/operator/rollouts/{rollout}", true],
  "show-schema": ["GET", "/v1/operator/schema/{kind}"],
  "show-server": ["GET", "/v1/operator/server"],
  "show-session": ["GET", "/v1/operator/sessions/{name}"],
  "show-template": ["GET", "/v1/operator/session-templates/{name}"],
  "status": ["GET", "/v1/operator/status", true],
  "stream-events": ["GET", "/v1/operator/events/stream"],
  "stream-topics": ["GET", "/v1/operator/stream"],
  "tune-host": ["PATCH", "/v1/operator/hosts/{host}/settings"],
  "undo-resolution": ["POST", "/v1/operator/drift-resolutions/{id}/undo"],
  "unfreeze-host": ["POST", "/v1/operator/hosts/{host}/unfreeze", false, "End the freeze of a host"],
  "unignore-drift": ["DELETE", "/v1/operator/drift-ignored/{id}"],
  "why-host": ["GET", "/v1/operator/hosts/{host}/why", true],
  "workspace-exec": ["POST", "/v1/operator/hosts/{host}/workspace/{name}/exec", false, "Run a command in a workspace, frames both ways"],
  "workspace-logs": ["GET", "/v1/operator/hosts/{host}/workspace/{name}/logs"],
  "workspace-terminal": ["GET", "/v1/operator/hosts/{host}/workspace/{name}/terminal"],
};
