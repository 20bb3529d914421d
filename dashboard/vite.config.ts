import tailwind from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// HS_API lets a developer point the proxy at the fake server or another machine.
const api = process.env.HS_API ?? "http://127.0.0.1:8000";

export default defineConfig({
  plugins: [react(), tailwind()],
  server: {
    port: 5173,
    strictPort: true,
    proxy: { "/api": { target: api }, "/ws": { target: api, ws: true } },
  },
  preview: {
    port: 4173,
    proxy: { "/api": { target: api }, "/ws": { target: api, ws: true } },
  },
  build: {
    outDir: "dist",
    target: "es2022",
    // Fonts stay files: a content security policy without data: fonts then still shows them.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      output: {
        // Seventy small files compress worse than one: what several views share is one file, apart from the shell.
        codeSplitting: {
          groups: [
            {
              name: "shared",
              test: new RegExp(
                [
                  "src/(charts|hooks|components/(?!ui|Link|FileDownload|GanttDiff))",
                  "src/components/ui/(SortableTable|Menu|Dialog|SearchBox|Select|ScrollRegion|ToggleSwitch|RunBadges)",
                  "src/lib/(statistics|savePng|run|download|tableData|slider|colorScales)",
                  "src/store/(layoutStore|widgetLayout|selectors|modelQueries|queryClient|run(Queries|Pages)|savedViews)",
                  "node_modules/(@tanstack|lucide-react/dist/esm/icons)",
                ].join("|"),
              ),
              minShareCount: 2,
            },
          ],
          includeDependenciesRecursively: false,
        },
      },
    },
  },
  test: {
    environment: "happy-dom",
    setupFiles: ["tests/setup.ts"],
    include: ["tests/**/*.test.{ts,tsx}", "src/**/*.test.{ts,tsx}"],
    // Two shared cores: one worker is faster than many that fight.
    maxWorkers: 1,
    // One document and one copy of the modules for all files: making them anew for each took most of the time.
    isolate: false,
  },
});
