import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app/App";
import { startApp } from "./app/appActions";
import "./styles/index.css";

const root = document.getElementById("root");
if (!root) throw new Error("index.html has no #root");
startApp();
createRoot(root).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
