/** Short names for the generated types, so that the rest of the code does not spell `components["schemas"]`. */
import type { components } from "./types";

type Schemas = components["schemas"];

export type Status = Schemas["Status"];
export type ComparisonRow = Schemas["ComparisonRow"];
export type Scheduler = Schemas["SchedulerResponse"];
export type Task = Schemas["TaskResponse"];
export type TaskDetail = Schemas["TaskDetail"];
export type Result = Schemas["Result"];
export type ResultPage = Schemas["ResultPage"];
export type ResultRow = Schemas["ResultRow"];
export type Run = Schemas["Run"];
export type RunDetail = Schemas["RunDetail"];
export type RunPage = Schemas["RunPage"];
export type RunDiff = Schemas["RunDiff"];
export type Gantt = Schemas["Gantt"];
export type Comparative = Schemas["Comparative"];
export type Trends = Schemas["Trends"];
export type Model = Schemas["Model"];
export type ModelVersion = Schemas["ModelVersionResponse"];
export type Statistics = Schemas["Statistics"];
export type ScenarioInfo = Schemas["ScenarioInfo"];
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
export type Difference = Schemas["Difference"];
export type DiffRow = Schemas["DiffRow"];
