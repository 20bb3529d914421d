/** Short names for the generated types of the API. */
import type { components } from "./types";

type Schemas = components["schemas"];

export type Status = Schemas["Status"];
export type ComparisonRow = Schemas["ComparisonRow"];
export type Scheduler = Schemas["SchedulerResponse"];
export type Run = Schemas["Run"];
export type RunDetail = Schemas["RunDetail"];
export type RunDiff = Schemas["RunDiff"];
export type Gantt = Schemas["Gantt"];
export type Comparative = Schemas["Comparative"];
export type Trends = Schemas["Trends"];
export type ModelVersion = Schemas["ModelVersionResponse"];
export type StartRequest = Schemas["StartRequest"];
export type RunRequest = Schemas["RunRequest"];
export type RunLabels = Schemas["RunLabelsRequest"];
export type RunPreview = Schemas["RunPreview"];
export type WorkloadShape = Schemas["WorkloadShape"];
export type Machine = Schemas["MachineOption"];
export type TraceInspection = Schemas["TraceInspection"];
export type TaskCreate = Schemas["TaskCreate"];
export type WhatIfRequest = Schemas["WhatIfRequest"];
export type WhatIfAnswer = Schemas["WhatIfAnswer"];
export type Decision = Schemas["DecisionRow"];
export type SimulationUpdate = Schemas["SimulationUpdate"];
export type Notification = Schemas["Notification"];
export type LogLine = Schemas["LogLine"];
export type Hello = Schemas["Hello"];
export type StreamEvent = SimulationUpdate | Notification | LogLine;
export type EventPage = Schemas["EventPage"];
export type RunState = Status["state"];
export type Verdict = Schemas["VerdictResponse"];
export type VerdictRow = Schemas["VerdictSchedulerRow"];
export type VerdictCause = Schemas["VerdictCause"];
export type VerdictComparand = Schemas["VerdictComparand"];
export type Difference = Schemas["Difference"];
export type DiffRow = Schemas["DiffRow"];
