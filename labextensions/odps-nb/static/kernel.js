// Sends queries to a notebook's kernel, as user expressions of an empty, silent execution.
//
// They number no cell, define no names and leave no trace in the notebook. They never import
// odps_nb into the kernel; only a kernel that has already loaded it can respond.

const MODULE = "odps_nb.notebook.magics.sidebar";

// Returns the result of `answer` in that module, or {problem: lines, waiting} if that fails.
export async function ask(kernel, kind, path, fresh) {
  const info = await kernel.info;
  if (info.language_info.name !== "python") {
    return { problem: ["This notebook's kernel is not Python."], waiting: true };
  }
  // a list of strings has the same syntax in JSON and in Python
  const call = `answer(${JSON.stringify(kind)}, ${JSON.stringify(path)}, fresh=${fresh ? "True" : "False"})`;
  const future = kernel.requestExecute({
    code: "",
    silent: true,
    store_history: false,
    stop_on_error: false,
    allow_stdin: false,
    user_expressions: { odps_nb: `__import__("sys").modules["${MODULE}"].${call}` },
  });
  const { content } = await future.done;
  const result = content.user_expressions?.odps_nb;
  if (result?.status === "ok") return result.data["application/json"];
  if (result?.ename === "KeyError") {
    return {
      problem: ["odps_nb is not loaded in this kernel.", "Run %load_ext odps_nb, then %odps connect."],
      waiting: true,
    };
  }
  const what = result ? `${result.ename}: ${result.evalue}` : "The kernel did not respond.";
  return { problem: [what, "Click Refresh to try again."], waiting: false };
}
